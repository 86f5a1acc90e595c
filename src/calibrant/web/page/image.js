// What a network says of an image.
export function showImages(section, model) {
  section.textContent = model.name;
}
