// Asks the public API about the token in the path, with what stands behind the # of the address, and
// sends the answer. It has no other rights, and nothing of it is kept.
"use strict";

const token = location.pathname.split("/").pop();
const bearer = location.hash.slice(1);
const part = (id) => document.getElementById(id);
const forms = ["approval", "message", "json"];

const ends = {
  completed: "This has been answered already.",
  cancelled: "Nobody waits for an answer any more.",
  expired: "The time to answer is over.",
};

/** What is left is one sentence. */
function end(text) {
  for (const id of ["approval", "message", "other", "until"]) part(id).hidden = true;
  part("state").textContent = text;
  part("state").focus();
}

async function ask(path, body) {
  const response = await fetch(`/api/v1/tokens/${encodeURIComponent(token)}${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: {
      authorization: `Bearer ${bearer}`,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    body,
    credentials: "omit",
    cache: "no-store",
  });
  return { status: response.status, answer: await response.json().catch(() => ({})) };
}

/** Whether the answer of the API means that there is nothing to do here any more. */
function isOver({ status, answer }) {
  if (status === 401) end("This link does not work any more: it was used, withdrawn, or is too old.");
  else if (answer.code === "token_expired") end(ends.expired);
  else if (status === 404) end("There is nothing to answer here.");
  else if (status === 409) end("Somebody else has answered already.");
  else return false;
  return true;
}

function setBusy(isBusy) {
  for (const button of document.querySelectorAll("button")) button.disabled = isBusy;
}

async function send(data) {
  setBusy(true);
  part("state").textContent = "Sending…";
  try {
    const got = await ask("/complete", JSON.stringify({ data }));
    if (isOver(got)) return;
    if (got.status === 200) end("Thank you. Your answer has arrived.");
    else part("state").textContent = got.answer.error ?? "This did not work. Try again.";
  } catch {
    part("state").textContent = "The server cannot be reached. Try again.";
  }
  setBusy(false);
}

function listen() {
  part("approval").addEventListener("submit", (event) => {
    event.preventDefault();
    send({ approved: event.submitter?.value !== "no" });
  });
  part("message").addEventListener("submit", (event) => {
    event.preventDefault();
    send({ text: event.target.elements.text.value });
  });
  part("json").addEventListener("submit", (event) => {
    event.preventDefault();
    let value;
    try {
      value = JSON.parse(event.target.elements.json.value);
    } catch (error) {
      part("fault").textContent = `This is not JSON: ${error.message}`;
      return;
    }
    part("fault").textContent = "";
    send(value);
  });
}

function show({ status, timeout_at: until, metadata }) {
  const { prompt, form } = metadata ?? {};
  const type = forms.includes(form?.type) ? form.type : "json";

  if (typeof prompt === "string" && prompt) {
    part("prompt").textContent = prompt;
    document.title = `${prompt.slice(0, 80)} · Helmr`;
  }
  if (status !== "pending") {
    end(ends[status] ?? "There is nothing to answer here.");
    return;
  }
  part("until").textContent = `Until ${new Date(until).toLocaleString()}`;
  part("until").hidden = part("other").hidden = false;
  part("other").open = type === "json";
  if (type !== "json") part(type).hidden = false;
  part("state").textContent = "";
}

async function main() {
  if (!bearer) {
    end("This link is not whole: something is missing at its end.");
    return;
  }
  try {
    const got = await ask("");
    if (isOver(got)) return;
    if (got.status === 200) show(got.answer);
    else end(got.answer.error ?? "This did not work. Open the link again.");
  } catch {
    end("The server cannot be reached. Open the link again.");
  }
}

listen();
main();
