/** Durations over time as a heat map: a column for each step, a row for each doubling, darker where more exchanges took so long. */

import { clockText, durationText, html } from './ui.js'

const WIDTH = 600
const HEIGHT = 140
const LEFT = 60
const BELOW = 18
/** Labels of the axis of time. */
const LABELS = 4
/** There is room for so many columns at least: a few are not drawn as wide as the chart. */
const FEWEST = 24

/**
 * The heat map. `steps`: as of `GET /traffic/day`, the oldest first.
 * @param {{ steps: readonly { at: string, p50_ms: number | null, p99_ms: number | null, durations: readonly { below_ms: number, count: number }[] }[] }} props
 */
export function HeatMap({ steps }) {
  const rows = [...new Set(steps.flatMap(({ durations }) => durations.map(({ below_ms: below }) => below)))].sort(
    (a, b) => a - b
  )
  const most = Math.max(1, ...steps.flatMap(({ durations }) => durations.map(({ count }) => count)))
  const last = steps.findLast(({ p99_ms: p99 }) => p99 !== null)
  const summary = last === undefined ? 'no request' : `99 % within ${durationText(last.p99_ms)} in the last step`
  const wide = (WIDTH - LEFT) / Math.max(FEWEST, steps.length)
  const high = (HEIGHT - BELOW) / Math.max(1, rows.length)
  const every = Math.ceil(Math.max(FEWEST, steps.length) / LABELS)
  const skip = Math.max(1, Math.ceil(rows.length / 6))
  return html`<figure class="chart">
    <figcaption>Durations <span class="small">${summary}</span></figcaption>
    <svg class="heat" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">
      ${rows.map((below, at) =>
        at % skip === 0
          ? html`<text x=${LEFT - 6} y=${HEIGHT - BELOW - at * high} text-anchor="end">${durationText(below / 2)}</text>`
          : null
      )}
      ${steps.map(({ at, durations }, column) => [
        column % every === 0
          ? html`<text x=${LEFT + column * wide} y=${HEIGHT - 4}>${clockText(new Date(at)).slice(0, 5)}</text>`
          : null,
        durations.map(
          ({ below_ms: below, count }) => html`<rect
            x=${LEFT + column * wide}
            y=${HEIGHT - BELOW - (rows.indexOf(below) + 1) * high}
            width=${Math.max(1, wide - 0.5)}
            height=${Math.max(1, high - 0.5)}
            fill-opacity=${0.15 + (0.85 * Math.log(1 + count)) / Math.log(1 + most)}
          ><title>${`${clockText(new Date(at))}: ${count} from ${durationText(below / 2)} to ${durationText(below)}`}</title></rect>`
        )
      ])}
    </svg>
  </figure>`
}
