"""The look of a page: light and dark, wide and narrow, on screen and on paper."""

# Okabe and Ito's hues, which the colour-blind tell apart; darker on white and lighter on black,
# so that each has a contrast of 3 at least. Order in a group is that of its legend, colour or not.
STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --card: #f5f6f8; --ink: #1c2128; --soft: #59636e; --rule: #d8dde3;
  --grid: #e4e8ec; --best: #e3f1e6; --link: #0b5cad;
  --c0: #0072b2; --c1: #c65102; --c2: #00805c; --c3: #b04d8f; --c4: #5b5bd6; --c5: #7a6a00;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171c; --card: #1d2128; --ink: #e6e9ed; --soft: #a2abb6; --rule: #363c46;
    --grid: #2a303a; --best: #1f3a2a; --link: #7ab7ff;
    --c0: #56b4e9; --c1: #f08c3a; --c2: #2fbf97; --c3: #e69ac8; --c4: #a5a5ff; --c5: #d9c84a;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 68rem;
  background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 {
  font-size: 1.4rem; margin: 3rem 0 .6rem; padding-top: 1rem; border-top: 1px solid var(--rule);
}
h3 { font-size: 1.1rem; margin: 2rem 0 .3rem; overflow-wrap: anywhere; }
p { max-width: 46rem; margin: .4rem 0 1rem; }
a { color: var(--link); }
.soft, footer { color: var(--soft); }
nav ul {
  display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; list-style: none; margin: 1rem 0 0;
  padding: 0;
}
code {
  font: .88em ui-monospace, "Cascadia Mono", Menlo, Consolas, monospace;
  overflow-wrap: anywhere;
}
.scroll { overflow-x: auto; }
.scroll:focus-visible, summary:focus-visible, a:focus-visible {
  outline: 2px solid var(--link); outline-offset: 2px;
}
table {
  border-collapse: collapse; margin: .6rem 0 1.4rem; font-size: .92rem;
  font-variant-numeric: tabular-nums;
}
caption { text-align: left; color: var(--soft); padding-bottom: .35rem; }
th, td {
  padding: .34rem .65rem; text-align: right; border-bottom: 1px solid var(--rule);
  white-space: nowrap;
}
th:first-child { padding-left: .3rem; position: sticky; left: 0; background: var(--paper); }
thead th {
  border-bottom: 2px solid var(--rule); font-weight: 600; vertical-align: bottom;
  white-space: normal; min-width: 4.5rem;
}
tbody th { font-weight: 500; }
tbody tr:hover > th, tbody tr:hover > td { background: var(--card); }
.text { text-align: left; }
td.text { white-space: normal; min-width: 12rem; max-width: 34rem; overflow-wrap: anywhere; }
td small { color: var(--soft); font-size: .82em; margin-left: .25em; }
tbody td.best, tbody tr:hover > td.best { background: var(--best); }
td.muted { color: var(--soft); }
details { margin: .7rem 0; border: 1px solid var(--rule); border-radius: .5rem; padding: 0 1rem; }
details > summary {
  cursor: pointer; font-weight: 600; padding: .55rem 0; overflow-wrap: anywhere;
}
details > ul { margin: .2rem 0 1rem; padding-left: 1.2rem; overflow-wrap: anywhere; }
figure { margin: 1rem 0 1.6rem; }
figcaption { color: var(--soft); font-size: .92rem; margin-bottom: .4rem; max-width: 46rem; }
.charts {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 30rem), 1fr));
  gap: 0 2rem;
}
.legend {
  display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; list-style: none; margin: 0 0 .5rem;
  padding: 0; font-size: .92rem;
}
.sign {
  display: inline-block; width: .85rem; height: .85rem; margin-right: .45rem;
  vertical-align: -.1rem; background: currentColor;
}
.sign.dot { border-radius: 50%; }
.sign.hollow { background: transparent; border: 2px solid currentColor; }
.sign.diamond { transform: rotate(45deg) scale(.8); }
.sign.stroke {
  height: 0; width: 1.6rem; vertical-align: .25rem; background: none;
  border-top: 2px dashed var(--ink);
}
.sign.stroke.exact { border-top: 2px dotted var(--soft); }
.sign.rest { color: var(--soft); opacity: .55; }
.c0 { color: var(--c0); } .c1 { color: var(--c1); } .c2 { color: var(--c2); }
.c3 { color: var(--c3); } .c4 { color: var(--c4); } .c5 { color: var(--c5); }
.again { opacity: .55; }
svg {
  display: block; height: auto; width: 100%;
  font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
svg text { fill: var(--ink); font-variant-numeric: tabular-nums; }
svg .tick, svg .value { fill: var(--soft); font-size: 11px; }
svg .title { font-weight: 600; }
svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
svg rect, svg .big { fill: currentColor; }
svg .grid { stroke: var(--grid); } svg .axis { stroke: var(--soft); }
svg .whisker { stroke: var(--ink); stroke-width: 1.2; }
svg .range { stroke: currentColor; stroke-width: 2; }
svg .point { fill: currentColor; stroke: currentColor; stroke-width: 2; }
svg .point.hollow { fill: var(--paper); }
svg .point.rest { color: var(--soft); opacity: .45; stroke: none; }
svg .big { stroke: var(--paper); stroke-width: 1.5; }
svg .front { fill: none; stroke: var(--c0); stroke-width: 2; }
svg .cut { stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 6 4; }
svg .exact { stroke: var(--soft); stroke-width: 1.5; stroke-dasharray: 2 4; }
svg .mark { font-weight: 600; }
footer {
  margin-top: 3rem; border-top: 1px solid var(--rule); padding-top: 1rem; font-size: .92rem;
}
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav { display: none; }
  figure, tr { break-inside: avoid; }
  .scroll { overflow: visible; }
}
"""
