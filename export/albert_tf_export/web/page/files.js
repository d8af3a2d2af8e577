// Reads the page's files, and compares them with the sizes and checksums that the export wrote.

let expected = {}; // size in bytes and CRC-32, keyed by name
const TABLE = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
  return value;
});

// Returns a file's bytes, or throws an error that names the file if it isn't the exported one. Some
// servers respond to requests for missing files with another page and status 200.
export async function read(name) {
  const response = await fetch(name).catch((error) => {
    throw new Error(`${name} can't be fetched (${error.message}).`);
  });
  if (!response.ok) throw new Error(`the server responded to ${name} with status ${response.status}.`);
  const content = new Uint8Array(await response.arrayBuffer());
  const [size, checksum] = expected[name] ?? [content.length, crc32(content)];
  if (content.length !== size) {
    throw new Error(`${name} has ${content.length} bytes instead of ${size}.`);
  }
  if (crc32(content) !== checksum) throw new Error(`${name} is damaged: its checksum differs.`);
  return content;
}

export async function readSettings() {
  const content = new TextDecoder().decode(await read("model/settings.json"));
  try {
    const settings = JSON.parse(content);
    expected = settings.files;
    return settings;
  } catch {
    throw new Error(`model/settings.json isn't valid JSON: ${content.slice(0, 40)}`);
  }
}

// Returns the error message of the first file that isn't the exported one, or null.
export async function fault() {
  for (const name of Object.keys(expected)) {
    try {
      await read(name);
    } catch (error) {
      return error.message;
    }
  }
  return null;
}

export function crc32(content) {
  let value = ~0;
  for (let at = 0; at < content.length; at += 1) {
    value = TABLE[(value ^ content[at]) & 255] ^ (value >>> 8);
  }
  return ~value >>> 0;
}
