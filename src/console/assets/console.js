// Shows times in the viewer's zone; UTC stays as the title.
const localize = (part) => {
  for (const time of part.querySelectorAll("time[datetime]")) {
    time.textContent = new Date(time.dateTime).toLocaleString();
  }
};
localize(document);
document.addEventListener("htmx:load", (event) => localize(event.detail.elt));
