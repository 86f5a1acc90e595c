// The page of calibrant serve: sends files to this server alone, and shows what it answers.
import { acceptDrops, refusal } from "/common.js";
import { showImages } from "/image.js";

const byId = (name) => document.getElementById(name);
const LINES = "application/x-ndjson";
let running = null; // what stops the request that is being answered
let kept = []; // addresses of what can be downloaded
let fitted = null; // the calibrator of the last evaluation, as a file
let held = []; // the files that were judged last, to be judged again with other options

function showStatus(words, share) {
  byId("status").hidden = words === null;
  if (words === null) return;
  const said = byId("status-words");
  const text = words[0].toUpperCase() + words.slice(1) + " …";
  if (said.textContent !== text) said.textContent = text;
  const bar = byId("status-bar");
  if (share === null) bar.removeAttribute("value");
  else bar.value = share;
}

// An error names fields as the page does, and opens the options if they can help.
function showError(text, lead = false) {
  byId("error").hidden = text === null;
  byId("error").textContent = inWords(text ?? "");
  const fields = fieldsOf();
  const named = fields.filter((field) => text?.includes(`\`${field.name}\``));
  for (const field of fields) field.setAttribute("aria-invalid", named.includes(field));
  if (!named.length) return;
  byId("options").open = true;
  if (lead) named[0].focus();
}

const fieldsOf = () => [...byId("predictions-form").querySelectorAll("[name]")];
const inWords = (text) => fieldsOf().reduce((said, field) => said.replaceAll(`\`${field.name}\``,
  `“${titleOf(field)}” (under Options)`), text);
const titleOf = (field) => field.closest("label").firstChild.textContent.trim();

// The columns of the table, to choose from: of a list with commas, what is typed last is completed.
function offerColumns(names) {
  const listed = byId("columns");
  for (const field of byId("predictions-form").querySelectorAll("[list=columns]")) {
    const offer = () => {
      const before = "several" in field.dataset ? field.value.replace(/[^,]*$/, "") : "";
      listed.replaceChildren(...names.map((name) => new Option("", before + name)));
    };
    field.onfocus = offer;
    field.oninput = offer;
  }
}

// The lines of an answer while they come.
async function* linesOf(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
  if (rest) yield JSON.parse(rest);
}

function formOf(files) {
  const form = new FormData();
  for (const file of files) form.append("file", file);
  for (const input of byId("predictions-form").querySelectorAll("[name]")) {
    const compares = files.length > 1 && ["method", "calibration"].includes(input.name);
    if (compares) continue;
    if (input.type === "file") {
      if (input.files.length) form.append(input.name, input.files[0]);
    } else if (input.value.trim()) form.append(input.name, input.value.trim());
  }
  return form;
}

// With `lead`, as after a drop and unlike while options are filled in, the eye is led to what comes of it.
async function judge(files, lead = true) {
  if (!files.length) return;
  running?.abort();
  const mine = new AbortController();
  running = mine;
  held = files;
  showError(null);
  byId("result").hidden = true;
  showStatus("sending " + files.map((file) => file.name).join(" and "), null);
  try {
    const answer = await fetch(files.length > 1 ? "/compare" : "/evaluate", {
      method: "POST", body: formOf(files), headers: { accept: LINES }, signal: mine.signal,
    });
    if (!answer.ok) {
      const told = await refusal(answer);
      offerColumns(told.columns ?? []);
      throw new Error(told.error);
    }
    for await (const line of linesOf(answer)) {
      if (line.columns) offerColumns(line.columns);
      if (line.error) throw new Error(line.error);
      if (line.progress) showStatus(line.progress, line.share);
      else showResult(files, line, lead);
    }
  } catch (error) {
    if (mine.signal.aborted) return;
    showError(error instanceof TypeError ? "The server cannot be reached: was it ended?" : error.message, lead);
  } finally {
    if (running === mine) {
      running = null;
      showStatus(null);
    }
  }
}

function download(label, name, content, kind) {
  const link = document.createElement("a");
  link.className = "button";
  link.textContent = label;
  link.download = name;
  link.href = URL.createObjectURL(new Blob([content], { type: kind }));
  kept.push(link.href);
  return link;
}

function showResult(files, found, lead) {
  const names = files.map((file) => file.name).join(" and ");
  const stem = files.length > 1 ? "comparison" : files[0].name.replace(/\..*$/, "");
  kept.forEach((address) => URL.revokeObjectURL(address));
  kept = [];
  const links = [
    download("Report (HTML)", `${stem}.html`, found.report, "text/html"),
    download("Numbers (JSON)", `${stem}.json`, found.json, "application/json"),
  ];
  if (found.calibrator) {
    const bytes = Uint8Array.from(atob(found.calibrator), (letter) => letter.charCodeAt(0));
    links.push(download("Fitted calibrator", found.calibrator_name, bytes, "application/octet-stream"));
    fitted = new File([bytes], found.calibrator_name);
  }
  byId("downloads").replaceChildren(...links);
  byId("result-title").textContent = names;
  document.body.classList.add("used");
  byId("result").hidden = false;
  showReport(found.report, names);
  if (lead) byId("result-title").focus();
}

// The report without its scripts, which the frame would not run; as high as it is, so that only the page scrolls.
function showReport(text, names) {
  const parsed = new DOMParser().parseFromString(text, "text/html");
  parsed.querySelectorAll("script").forEach((script) => script.remove());
  const frame = byId("report");
  frame.title = `Report on ${names}`;
  frame.onload = () => {
    const root = frame.contentDocument.documentElement;
    const fit = () => {
      frame.style.height = `${Math.ceil(root.getBoundingClientRect().height)}px`;
    };
    fit();
    new ResizeObserver(fit).observe(root);
    for (const link of root.querySelectorAll('a[href^="#"]')) {
      link.addEventListener("click", (event) => {
        const target = frame.contentDocument.getElementById(link.getAttribute("href").slice(1));
        if (!target) return;
        event.preventDefault();
        target.scrollIntoView();
      });
    }
  };
  frame.srcdoc = "<!DOCTYPE html>" + parsed.documentElement.outerHTML;
}

// Calibrates the new predictions by the calibrator that was chosen or fitted, and offers the file.
async function apply() {
  const [file] = byId("apply-file").files;
  const calibrator = byId("apply-calibrator").files[0] ?? fitted;
  if (!file) return;
  const say = (error, notes = [], links = []) => {
    byId("apply-error").hidden = error === null;
    byId("apply-error").textContent = error ?? "";
    byId("apply-notes").replaceChildren(...notes.map((note) => Object.assign(document.createElement("li"), { textContent: note })));
    byId("applied").replaceChildren(...links);
  };
  if (!calibrator) {
    say("Choose a calibrator, or evaluate predictions with labels first.");
    return;
  }
  say(null, [`Applying ${calibrator.name} …`]);
  const form = new FormData();
  form.append("file", file);
  form.append("calibrator", calibrator);
  for (const name of ["prob_columns", "logit_columns", "group_column", "format"]) {
    const text = document.querySelector(`[name=${name}]`).value.trim();
    if (text) form.append(name, text);
  }
  try {
    const answer = await fetch("/apply", { method: "POST", body: form });
    if (!answer.ok) throw new Error(inWords((await refusal(answer)).error));
    const name = decodeURIComponent(answer.headers.get("content-disposition").split("UTF-8''")[1]);
    const notes = JSON.parse(answer.headers.get("calibrant-notes"));
    say(null, notes, [download("Calibrated predictions", name, await answer.blob(), "application/octet-stream")]);
  } catch (error) {
    say(error instanceof TypeError ? "The server cannot be reached: was it ended?" : error.message);
  }
}

// Made-up predictions of a network that is too sure: the answer to a click of somebody who has no file at hand.
function example() {
  let state = 20;
  const random = () => {
    state = (state * 48271) % 2147483647;
    return state / 2147483647;
  };
  const rows = ["label,prob"];
  for (let row = 0; row < 1500; row += 1) {
    const logOdds = 6 * (random() - 0.5);
    const label = random() < 1 / (1 + Math.exp(-logOdds)) ? 1 : 0;
    rows.push(`${label},${(1 / (1 + Math.exp(-2 * logOdds))).toFixed(6)}`);
  }
  return new File([rows.join("\n") + "\n"], "made-up.csv", { type: "text/csv" });
}

function showView() {
  const image = byId("views").hidden === false && location.hash !== "#predictions";
  byId("image").hidden = !image;
  byId("predictions").hidden = image;
  for (const link of byId("views").querySelectorAll("a")) {
    if (link.hash === (image ? "#image" : "#predictions")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

async function start() {
  acceptDrops(byId("predictions-drop"), (files) => judge(files));
  byId("predictions-form").addEventListener("submit", (event) => event.preventDefault());
  for (const name of ["apply-calibrator", "apply-file"]) byId(name).addEventListener("change", apply);
  for (const field of fieldsOf()) {
    field.addEventListener("change", () => judge(held, false));
  }
  byId("cancel").addEventListener("click", () => {
    running?.abort();
    showStatus(null);
  });
  byId("example").addEventListener("click", () => judge([example()]));
  for (const kind of ["dragover", "drop"]) {
    window.addEventListener(kind, (event) => event.preventDefault()); // a file beside the area is not opened
  }
  const about = await (await fetch("/about")).json();
  byId("version").textContent = about.version;
  byId("limit").textContent = `· up to ${Math.round(about.most_bytes / 2 ** 20)} MiB`;
  if (!["localhost", "127.0.0.1", "[::1]"].includes(location.hostname)) byId("where").textContent = location.host;
  if (about.model) {
    byId("views").hidden = false;
    showImages(byId("image"), about.model);
  }
  showView();
  window.addEventListener("hashchange", showView);
}

start();
