// Shows times in the viewer's zone; UTC stays as the title.
for (const time of document.querySelectorAll("time[datetime]")) {
  time.textContent = new Date(time.dateTime).toLocaleString();
}
