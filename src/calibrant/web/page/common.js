// What both views of the page use.

// What went wrong, in one sentence, and perhaps the columns of the table.
export async function refusal(answer) {
  try {
    return await answer.json();
  } catch {
    return { error: `The server answered ${answer.status}.` };
  }
}

// Makes a field for files take what is dropped on its area, too.
export function acceptDrops(area, take) {
  for (const kind of ["dragenter", "dragover"]) {
    area.addEventListener(kind, (event) => {
      event.preventDefault();
      area.classList.add("over");
    });
  }
  for (const kind of ["dragleave", "drop"]) {
    area.addEventListener(kind, (event) => {
      event.preventDefault();
      area.classList.remove("over");
    });
  }
  area.addEventListener("drop", (event) => take([...event.dataTransfer.files]));
  const input = area.querySelector("input");
  input.addEventListener("change", () => {
    take([...input.files]);
    input.value = ""; // so that the same file may be chosen again
  });
}
