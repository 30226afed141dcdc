"use strict";
(() => {
  const root = document.documentElement;
  const input = document.getElementById("find");
  const count = document.getElementById("found");
  const button = document.getElementById("theme");
  const main = document.getElementById("session");
  document.querySelector(".bar").hidden = false;

  // The button names the theme that it switches to.
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  const nameTheme = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  prefersDark.addEventListener("change", nameTheme);
  nameTheme();

  const maxMarks = 2000;
  const entries = [...main.querySelectorAll(".entry")];
  const sections = [...main.querySelectorAll("section")];
  const texts = new Map();
  const textOf = (entry) => {
    if (!texts.has(entry)) texts.set(entry, entry.textContent.toLowerCase());
    return texts.get(entry);
  };
  let opened = [];
  let ranges = [];
  let current = -1;

  // Ranges of all places of the words. A place does not cross elements.
  const mark = (entry, words) => {
    const walker = document.createTreeWalker(entry, NodeFilter.SHOW_TEXT);
    while (ranges.length < maxMarks && walker.nextNode()) {
      const node = walker.currentNode;
      const text = node.data.toLowerCase();
      if (text.length !== node.data.length) continue;
      for (let at = text.indexOf(words); at >= 0; at = text.indexOf(words, at + words.length)) {
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, at + words.length);
        ranges.push(range);
        const parent = node.parentElement;
        for (let fold = parent.closest("details"); fold; fold = fold.parentElement.closest("details")) {
          if (!fold.open && !(fold.firstElementChild.contains(node))) {
            fold.open = true;
            opened.push(fold);
          }
        }
      }
    }
  };

  let timer = 0;
  const search = () => {
    clearTimeout(timer);
    timer = 0;
    const words = input.value.trim().toLowerCase();
    opened.forEach((fold) => { fold.open = false; });
    [opened, ranges, current] = [[], [], -1];
    let shown = 0;
    for (const entry of entries) {
      entry.hidden = words !== "" && !textOf(entry).includes(words);
      if (!entry.hidden) shown += 1;
      if (words !== "" && !entry.hidden) mark(entry, words);
    }
    for (const section of sections) {
      section.hidden = words !== "" && !section.querySelector(".entry:not([hidden])");
    }
    if (window.CSS && CSS.highlights) CSS.highlights.set("find", new Highlight(...ranges));
    count.textContent = words === "" ? "" : `${shown} of ${entries.length}`;
  };

  const step = (by) => {
    if (ranges.length === 0) return;
    current = (current + by + ranges.length) % ranges.length;
    const place = ranges[current].startContainer.parentElement;
    place.scrollIntoView({ block: "center" });
  };

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, 120);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") input.value = "";
    if (event.key === "Escape" || (event.key === "Enter" && timer !== 0)) search();
    if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.activeElement === input) return;
    event.preventDefault();
    input.focus();
  });

  // For browsers whose style sheets cannot unfold.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    folded.forEach((fold) => { fold.open = true; });
  });
  addEventListener("afterprint", () => {
    folded.forEach((fold) => { fold.open = false; });
  });
})();
