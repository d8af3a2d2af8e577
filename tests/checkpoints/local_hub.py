"""A local server that implements the Hugging Face Hub's protocol, for tests of the Hub's client.

It receives all uploaded files as regular files, without Git LFS, and doesn't support Xet.
"""

import base64
import collections
import hashlib
import http.server
import json
import re
import threading

LARGE = (".h5", ".safetensors")  # downloads of these files are redirected to another host
EXPIRED = "expired"  # a token that no repository accepts


class LocalHub(http.server.ThreadingHTTPServer):
    """Stores repositories, and records requests. `clear` explains the attributes."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.clear()

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def clear(self):
        self.commits = collections.defaultdict(dict)  # of each repository, by revision
        self.files = {}  # of each commit, by name
        self.tokens, self.new_names = {}, {}  # of gated and of renamed repositories
        self.messages, self.private = [], set()  # of commits, and private repositories
        self.status = None  # of all answers, if the Hub is down
        self.cuts = []  # how many bytes each of the next downloads sends before it breaks off
        self.asked, self.sent = [], []  # file, revision and token, and names of downloaded files

    def put(self, repository, files, revision="main"):
        """Replaces a repository's files with those of a new commit, and returns the commit."""
        content = repr((repository, sorted(files.items()))).encode()
        commit = hashlib.sha1(content).hexdigest()
        self.commits[repository] |= {revision: commit, commit: commit}
        self.files[commit] = files
        return commit

    def latest(self, repository):
        return self.files[self.commits[repository]["main"]]


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, status, content=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": len(content), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def answer_json(self, status=200, **content):
        self.answer(status, json.dumps(content).encode())

    def send_file(self, name, content, **headers):
        headers["Content-Length"] = len(content)
        if self.command == "GET":
            self.server.sent.append(name)
            content = content[: self.server.cuts.pop(0)] if self.server.cuts else content
        self.answer(200, content, **headers)

    @property
    def token(self):
        return self.headers.get("Authorization", "").removeprefix("Bearer ") or None

    def do_GET(self):
        hub = self.server
        if found := re.fullmatch(r"/content/(\w+)/(.+)", self.path):
            assert self.token is None, "a token leaves the Hub"
            return self.send_file(found[2], hub.files[found[1]][found[2]])
        found = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.path)
        if found is None:
            return self.answer(404)
        repository, revision, file = found.groups()
        if self.command == "HEAD":
            hub.asked.append((file, revision, self.token))
        if hub.status:
            return self.answer(hub.status)
        if self.token == EXPIRED:
            return self.answer(401, X_Error_Message="Invalid credentials in Authorization header")
        if new := hub.new_names.get(repository):
            return self.answer(307, Location=self.path.replace(repository, new, 1))
        if repository not in hub.commits:
            return self.answer(404 if self.token else 401, X_Error_Code="RepoNotFound")
        if hub.tokens.get(repository, self.token) != self.token:
            return self.answer(403, X_Error_Code="GatedRepo")
        commit = hub.commits[repository].get(revision)
        if commit is None:
            return self.answer(404, X_Error_Code="RevisionNotFound")
        if file not in hub.files[commit]:
            return self.answer(404, X_Error_Code="EntryNotFound", X_Repo_Commit=commit)
        content = hub.files[commit][file]
        etag = f'"{hashlib.sha256(content).hexdigest()}"'
        if not file.endswith(LARGE):
            return self.send_file(file, content, ETag=etag, X_Repo_Commit=commit)
        address = f"http://localhost:{hub.server_port}/content/{commit}/{file}"
        linked = {"X_Linked_ETag": etag, "X_Linked_Size": len(content)}
        return self.answer(302, Location=address, X_Repo_Commit=commit, **linked)

    do_HEAD = do_GET

    def do_POST(self):
        hub = self.server
        content = self.rfile.read(int(self.headers["Content-Length"]))
        lines = [json.loads(line) for line in content.splitlines()]
        path = self.path.partition("?")[0]
        if path == "/api/validate-yaml":
            return self.answer_json(warnings=[], errors=[])
        if self.token is None:
            return self.answer(401)
        if path == "/api/repos/create":
            repository = f"{lines[0]['organization'] or 'someone'}/{lines[0]['name']}"
            if lines[0].get("visibility") == "private" or lines[0].get("private"):
                hub.private.add(repository)
            exists = repository in hub.commits
            if not exists:
                hub.put(repository, {})
            return self.answer_json(409 if exists else 200, url=f"{hub.address}/{repository}")
        found = re.fullmatch(r"/api/models/([^/]+/[^/]+)/(preupload|commit)/([^/]+)", path)
        repository, action, revision = found.groups()
        if action == "preupload":
            kind = {"uploadMode": "regular", "shouldIgnore": False}
            files = [{"path": file["path"], **kind} for file in lines[0]["files"]]
            return self.answer_json(files=files)
        header, *added = [line["value"] for line in lines]
        files = {file["path"]: base64.b64decode(file["content"]) for file in added}
        before = hub.files.get(hub.commits[repository].get(revision), {})
        commit = hub.put(repository, {**before, **files}, revision)
        hub.messages.append(header["summary"])
        url = f"{hub.address}/{repository}/commit/{commit}"
        return self.answer_json(commitUrl=url, commitOid=commit)
