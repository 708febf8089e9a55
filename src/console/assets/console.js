// Shows times in the viewer's zone; UTC stays as the title.
const localize = (part) => {
  for (const time of part.querySelectorAll("time[datetime]")) {
    time.textContent = new Date(time.dateTime).toLocaleString();
  }
};
localize(document);
document.getElementById("zone").textContent = Intl.DateTimeFormat().resolvedOptions().timeZone;
document.addEventListener("htmx:load", (event) => localize(event.detail.elt));
// Why a list is not followed any more, such as after the end of a key, is seen as a page.
document.addEventListener("htmx:responseError", (event) => {
  if (event.detail.elt.id === "rows") location.reload();
});
