// What a network says of an image: probabilities before and after calibration, and where it sees a class.
import { acceptDrops, refusal } from "/common.js";

const MOST_ROWS = 14; // before the others are folded
const MEANINGS = {
  raw: "the network’s own probability, before calibration.",
  calibrated: "of images with this number, about that share have the class. The range below it is where the number would "
    + "lie had other images been there to calibrate with; it is no interval for this one image.",
  prevalence: "how often the class occurs among the calibration images. Where it occurs more or less often, the "
    + "calibrated probability is wrong. The red tick in the bar marks it.",
  answer: "yes above the threshold and its band, no below, not answered between.",
  threshold: "a class counts as found where its calibrated probability is above this. The dashed line in the bars marks it.",
  band: "within so much of the threshold nothing is answered, because a probability is never known exactly.",
};

let model = null;
let file = null;
let rows = [];
let asked = 0; // counts questions, so that a late answer is not shown

function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made && name !== "list") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null)); // as text, whatever it holds
  return made;
}

const percent = (share) => {
  const digits = share > 0.995 || share < 0.005 ? 2 : share < 0.0995 || share > 0.99 ? 1 : 0;
  return `${(100 * share).toFixed(share === 0 || share === 1 ? 0 : digits)} %`;
};
const shown = (name) => name.replaceAll("_", " ");
const find = (name) => document.getElementById(`image-${name}`);

// A heading whose meaning stands below the table while it is pointed at, or has the focus.
function explained(text, key) {
  const button = el("button", { type: "button", className: "tip", "aria-describedby": "image-meaning" }, text);
  explain(button, text, key);
  return el("th", { scope: "col", className: key }, button);
}

function explain(element, text, key) {
  for (const event of ["mouseenter", "focusin", "click"]) {
    element.addEventListener(event, () => {
      find("meaning").textContent = `${text}: ${MEANINGS[key]}`;
    });
  }
}

export function showImages(section, described) {
  model = described;
  const input = el("input", { type: "file", id: "image-file",
    accept: ".png,.jpg,.jpeg,.webp,.bmp,.tif,.tiff,.gif" });
  const drop = el("label", { className: "drop", id: "image-drop" }, input,
    el("span", { className: "drop-title" }, "Drop an image here"),
    el("span", {}, "or ", el("span", { className: "link" }, "choose one")));
  const fitted = model.num_calibration === null ? "" : ` on ${model.num_calibration.toLocaleString("en")} images`;
  const calibrated = model.calibrator === null
    ? "It has no calibrator, so its probabilities are shown as they come."
    : `Calibrator: ${model.calibrator}${fitted && ", fitted" + fitted}.`;
  section.replaceChildren(...[
    el("h1", { id: "image-title" }, "What the network says of an image"),
    el("p", { className: "lead" }, el("code", {}, model.name), ` knows ${model.classes.length} classes`,
      model.multilabel ? ", each of which an image may have or not. " : ". ", calibrated),
    model.notice === null ? null : el("p", { className: "notice" }, el("strong", {}, model.notice)),
    drop,
    el("p", { className: "small" }, "Images are looked at in memory and are not kept."),
    el("p", { role: "status", className: "small", id: "image-status" }),
    el("p", { role: "alert", className: "error", id: "image-error", hidden: true }),
    el("div", { id: "image-result", className: "image-result", hidden: true }, figure(), answers()),
  ].filter((each) => each !== null));
  acceptDrops(drop, (files) => {
    if (!files.length) return;
    [file] = files;
    ask("likeliest");
  });
}

function figure() {
  const opacity = el("input", { type: "range", min: 0, max: 100, value: 60, id: "image-opacity" });
  opacity.addEventListener("input", () => {
    find("map").style.opacity = opacity.value / 100;
  });
  const choice = el("select", { id: "image-class" },
    ...model.classes.map((name) => el("option", { value: name }, shown(name))));
  choice.addEventListener("change", () => ask(choice.value));
  return el("figure", { className: "seen" },
    el("div", { className: "stack" },
      el("img", { id: "image-picture", alt: "" }), el("img", { id: "image-map", alt: "" })),
    el("figcaption", {},
      el("div", { className: "controls" },
        el("label", {}, "Map of ", choice), el("label", {}, "Opacity ", opacity)),
      el("p", { className: "small", id: "image-caption" })));
}

function answers() {
  const threshold = el("input", { type: "range", min: 0, max: 100, value: 50, id: "image-threshold" });
  const band = el("input", { type: "range", min: 0, max: 50, value: 5, id: "image-band" });
  for (const input of [threshold, band]) input.addEventListener("input", showRows);
  const above = el("label", {}, el("span", { id: "image-threshold-text" }), threshold);
  const within = el("label", {}, el("span", { id: "image-band-text" }), band);
  explain(above, "Threshold", "threshold");
  explain(within, "Not answered", "band");
  return el("div", {},
    el("p", { id: "image-answer", className: "verdict", role: "status" }),
    el("div", { className: "controls" }, above, within),
    el("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Probabilities" },
      el("table", { id: "image-table" })),
    el("p", { id: "image-meaning", className: "small" }, "Point at a heading or a slider to see what it means."));
}

async function ask(name) {
  const mine = (asked += 1);
  const began = performance.now();
  find("error").hidden = true;
  find("status").textContent = `Looking at ${file.name} …`;
  const form = new FormData();
  form.append("file", file);
  form.append("map", name);
  try {
    const answer = await fetch("/predict", { method: "POST", body: form });
    if (mine !== asked) return;
    if (!answer.ok) throw new Error((await refusal(answer)).error);
    const [found] = (await answer.json()).predictions;
    if (mine !== asked) return;
    const seconds = (performance.now() - began) / 1000;
    find("status").textContent = `${file.name}: ${found.width} × ${found.height} pixels, answered in `
      + `${seconds.toFixed(2)} s.`;
    show(found);
  } catch (error) {
    if (mine !== asked) return;
    find("status").textContent = "";
    find("error").hidden = false;
    find("error").textContent = error instanceof TypeError
      ? "The server cannot be reached: was it ended?" : error.message;
    find("result").hidden = name === "likeliest";
  }
}

function show(found) {
  rows = [...found.classes].sort((first, second) => second.calibrated - first.calibrated);
  find("result").hidden = false;
  find("picture").src = found.image;
  find("picture").alt = `What the network sees of ${file.name}`;
  const map = find("map");
  map.hidden = !found.map;
  if (found.map) {
    map.src = found.map;
    map.alt = `Where it sees ${shown(found.map_of)}`;
    map.style.opacity = find("opacity").value / 100;
    find("class").value = found.map_of;
  }
  find("caption").textContent = !found.map ? `No map: ${found.map_error}`
    : found.map_empty ? `Nothing in the image speaks for ${shown(found.map_of)}.`
      : `Bright where the network finds what speaks for ${shown(found.map_of)} (Grad-CAM of the middle view). `
        + "It shows where the network looks, not whether it is right.";
  showRows();
}

function said(probability) {
  const threshold = find("threshold").value / 100;
  const band = find("band").value / 100;
  if (probability >= threshold + band) return "yes";
  return probability < threshold - band ? "no" : "not answered";
}

function showRows() {
  find("threshold-text").textContent = `Threshold ${find("threshold").value} %`;
  find("band-text").textContent = `Not answered within ± ${find("band").value} %`;
  if (!rows.length) return;
  const [first] = rows;
  const yes = rows.filter((row) => said(row.calibrated) === "yes");
  const open = rows.filter((row) => said(row.calibrated) === "not answered");
  const listed = (some) => some.map((row) => shown(row.name)).join(", ");
  find("answer").textContent = model.multilabel
    ? `${yes.length ? `Yes: ${listed(yes)}.` : "No class is above the threshold."}`
      + `${open.length ? ` Not answered: ${listed(open)}.` : ""}`
    : said(first.calibrated) === "yes"
      ? `${shown(first.name)}, ${percent(first.calibrated)}`
      : `Not answered: the likeliest class, ${shown(first.name)}, has ${percent(first.calibrated)}.`;
  const extra = { prevalence: first.prevalence !== null, calibrated: model.calibrator !== null };
  const head = el("tr", {}, el("th", { scope: "col" }, "Class"), explained("Raw", "raw"),
    extra.calibrated ? explained("Calibrated", "calibrated") : null,
    el("td", { className: "bar-head" }),
    extra.prevalence ? explained("Occurs in", "prevalence") : null,
    model.multilabel ? explained("Answer", "answer") : null);
  const body = rows.slice(0, MOST_ROWS).map((row) => line(row, extra));
  find("table").replaceChildren(el("thead", {}, head), el("tbody", {}, ...body));
  if (rows.length > MOST_ROWS) {
    find("table").append(el("caption", { className: "small" },
      `The ${MOST_ROWS} likeliest of ${rows.length} classes`));
  }
}

function line(row, extra) {
  const answer = said(row.calibrated);
  const range = row.low === null ? null
    : el("span", { className: "interval" }, `${percent(row.low)} to ${percent(row.high)}`);
  return el("tr", { className: answer.replace(" ", "-") },
    el("th", { scope: "row" }, shown(row.name)), el("td", {}, percent(row.raw)),
    extra.calibrated ? el("td", { className: "main" }, percent(row.calibrated), range) : null,
    el("td", { className: "bar-cell" }, bar(row)),
    extra.prevalence ? el("td", {}, percent(row.prevalence)) : null,
    model.multilabel ? el("td", { className: "said" }, answer) : null);
}

// The probability as a bar, its interval as a line, how often the class occurs as a tick: all from the table.
function bar(row) {
  const at = (share) => `${100 * share}%`;
  const made = el("div", { className: "bar", "aria-hidden": "true" });
  const part = (name, left, width) => {
    const piece = el("span", { className: name });
    piece.style.left = at(left);
    if (width !== null) piece.style.width = at(width);
    made.append(piece);
  };
  part("fill", 0, row.calibrated);
  if (row.low !== null) part("range", row.low, row.high - row.low);
  if (row.prevalence !== null) part("tick", row.prevalence, null);
  part("threshold", find("threshold").value / 100, null);
  return made;
}
