// The page: text boxes, and answers as bars and highlighted text.
import { Model } from "./model.js";
import { answer, classify, fillMask, search } from "./tasks.js";
import { Tokenizer } from "./tokenizer.js";

const TASKS = {
  "text-classification": {
    title: "Text classification",
    hint: "Scores a text for each class.",
    boxes: ["Text", "Second text"],
    run: classify,
    show: showClasses,
  },
  "fill-mask": {
    title: "Fill mask",
    hint: "Fills each [MASK] with the most likely words.",
    boxes: ["Text with [MASK]"],
    run: fillMask,
    show: showWords,
  },
  "question-answering": {
    title: "Question answering",
    hint: "Finds the answer to a question in a text.",
    boxes: ["Question", "Text"],
    run: answer,
    show: showSpan,
  },
  "feature-extraction": {
    title: "Search by meaning",
    hint: "Finds the texts that are closest to a query, by the cosine similarity of their vectors.",
    boxes: ["Query", "Texts, one per line"],
    run: search,
    show: showClasses,
  },
};
const at = (id) => document.getElementById(id);

// Shows the page for these settings; `read` returns a file's bytes.
export async function start(settings, read) {
  const began = performance.now();
  const task = TASKS[settings.task];
  document.title = `${settings.name} · ${task.title}`;
  at("task").textContent = task.title;
  at("name").textContent = settings.name;
  const [tokenizer, model] = await Promise.all([
    read("model/spiece.model").then(Tokenizer.load),
    read("model/model.tflite").then(Model.load),
  ]);
  const page = { settings, tokenizer, model };
  at("hint").textContent = task.hint;
  at("host").textContent = hostLine(model, settings, performance.now() - began);
  makeForm(page, task);
  globalThis.page = page; // for the browser's console
  if (settings.examples.length) at("form").requestSubmit(); // runs the first example
}

function makeForm(page, task) {
  const { settings } = page;
  const form = at("form");
  const hasTwo = ["question-answering", "feature-extraction"].includes(settings.task);
  const isPair = hasTwo || settings.pairs;
  at("first").querySelector("span").textContent = task.boxes[0];
  at("second").querySelector("span").textContent = task.boxes[1];
  at("second").hidden = !isPair;
  form.second.required = isPair;
  for (const [text, second] of settings.examples) {
    const button = element("button", "Example");
    button.type = "button";
    button.textContent = `Example ${at("examples").children.length + 1}`;
    button.onclick = () => {
      [form.text.value, form.second.value] = [text, second ?? ""];
      form.requestSubmit();
    };
    at("examples").append(button);
  }
  form.onsubmit = (event) => {
    event.preventDefault();
    submit(page, task, form.text.value, form.second.value);
  };
  form.onkeydown = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  };
  [form.text.value, form.second.value] = settings.examples[0] ?? ["", ""];
  form.hidden = false;
}

async function submit(page, task, text, second) {
  const button = at("form").querySelector("[type=submit]");
  button.disabled = true;
  at("result").ariaBusy = "true";
  await new Promise((resolve) => setTimeout(resolve)); // lets the browser redraw the button
  const began = performance.now();
  try {
    const found = await task.run(page, text, second ?? "");
    at("result").replaceChildren(...task.show(found, second));
    if (found.cut) at("result").append(element("p", cutLine(found.cut)));
    at("time").textContent = timeLine(found.runs, performance.now() - began);
  } catch (error) {
    const message = element("p", error.message);
    message.className = "error";
    at("result").replaceChildren(message);
    at("time").textContent = "";
  } finally {
    at("result").hidden = false;
    at("result").ariaBusy = "false";
    button.disabled = false;
  }
}

function showClasses({ answers }) {
  return bars(answers);
}

function showWords({ answers }) {
  if (answers.length === 1) return bars(answers[0], (each) => each.sequence);
  return answers.flatMap((each, index) => [element("h2", `Mask ${index + 1}`), ...bars(each)]);
}

function showSpan({ answers, none }, context) {
  if (!answers.length) return [element("h2", "No answer")];
  const passage = element("p");
  passage.className = "passage";
  if (none) {
    passage.textContent = context;
  } else {
    const letters = Array.from(context);
    const { start, end } = answers[0];
    const mark = element("mark", letters.slice(start, end).join(""));
    passage.append(letters.slice(0, start).join(""), mark, letters.slice(end).join(""));
  }
  return [element("h2", none ? "No answer in this text" : "Answer"), passage,
    element("h2", none ? "Closest candidates" : "Scores"), ...bars(answers)];
}

function bars(answers, describe = (each) => each.text) {
  return answers.map((each, index) => {
    const row = element("div");
    row.className = index ? "row" : "row best";
    const score = element("data", each.score.toFixed(3));
    score.value = each.score;
    const bar = element("div");
    const filled = element("div");
    bar.className = "bar";
    filled.style.width = `${100 * Math.min(1, Math.max(0, each.score))}%`;
    bar.append(filled);
    row.append(element("span", describe(each)), score, bar);
    return row;
  });
}

function cutLine({ what, read, pieces }) {
  return `${what} too long for the model, which read ${read} of ${pieces} tokens.`;
}

function timeLine(runs, milliseconds) {
  const names = [...new Set(runs.map((run) => run.signature))].join(", ");
  const model = runs.reduce((sum, run) => sum + run.milliseconds, 0);
  const calls = runs.length > 1 ? `${runs.length} calls, ` : "";
  return `${milliseconds.toFixed(0)} ms, including ${model.toFixed(0)} ms in the model (${calls}${names})`;
}

function hostLine({ threads }, { megabytes }, milliseconds) {
  const speed = threads > 1
    ? `${threads} threads`
    : "1 thread (more require the headers COOP and COEP)";
  return `${megabytes} MB, loaded in ${(milliseconds / 1000).toFixed(1)} s · LiteRT.js on WebAssembly, ` +
    `${speed} · texts stay in this browser`;
}

function element(name, text = "") {
  const created = document.createElement(name);
  created.textContent = text;
  return created;
}
