/** Charts of numbers over time, drawn by uPlot, which is loaded with the first of them. */

import { urlOf } from './api.js'
import { clockText, html, useEffect, useRef, useState } from './ui.js'

/** @type {Promise<any> | undefined} */
let library

/** The file of the package is a script that sets a global; a third of the size of its module. */
function loadLibrary() {
  library ??= new Promise((resolve, reject) => {
    const style = document.createElement('link')
    style.rel = 'stylesheet'
    style.href = urlOf('dashboard/lib/uPlot.min.css')
    const script = document.createElement('script')
    script.src = urlOf('dashboard/lib/uPlot.iife.min.js')
    script.onload = () => resolve(/** @type {any} */ (globalThis).uPlot)
    script.onerror = () => {
      library = undefined
      reject(new Error('the chart library cannot be loaded'))
    }
    document.head.append(style, script)
  })
  return library
}

/**
 * A colour of the style sheet, as it is now: `good` for `--good`.
 * @param {string} name
 */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()
}

/**
 * A chart. `times`: seconds since 1970, ascending; each series has as many values, null where there is none. `stacked`: each
 * series lies on those before it. `summary`: what the chart says, in words, for those who do not see it.
 * @param {{ title: string, summary: string, times: readonly number[], series: readonly { label: string, colour: string, values: readonly (number | null)[] }[], unit?: string, height?: number, stacked?: boolean, format?: (value: number) => string }} props
 */
export function Chart({ title, summary, times, series, unit = '', height = 140, stacked = false, format = String }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null))
  const plot = useRef(/** @type {any} */ (undefined))
  const [at, point] = useState(/** @type {number | undefined} */ (undefined))
  // The highest sum is drawn first, so that those below it are seen.
  const drawn = stacked ? [...series].reverse() : series
  const given = useRef({ times, series: drawn })
  given.current = { times, series: drawn }
  const shape = drawn.map(({ label, colour: name }) => `${label}/${name}`).join()
  useEffect(() => {
    let gone = false
    const element = box.current
    const build = async () => {
      const UPlot = await loadLibrary()
      if (gone || element === null) return
      plot.current?.destroy()
      const axis = {
        stroke: colour('muted'),
        grid: { stroke: colour('line'), width: 1 },
        ticks: { show: false },
        font: '11px system-ui'
      }
      const options = {
        width: Math.max(element.clientWidth, 120),
        height,
        legend: { show: false },
        cursor: { drag: { x: false, y: false } },
        hooks: { setCursor: [(/** @type {any} */ self) => point(self.cursor.idx ?? undefined)] },
        scales: {
          y: {
            range: (/** @type {any} */ _, /** @type {number} */ _least, /** @type {number} */ most) => [
              0,
              Math.max(most || 0, 1) * 1.05
            ]
          }
        },
        axes: [
          {
            ...axis,
            space: 64,
            size: 26,
            values: (/** @type {any} */ _, /** @type {number[]} */ at) => timeLabels(at)
          },
          {
            ...axis,
            size: 60,
            values: (/** @type {any} */ _, /** @type {number[]} */ at) => at.map((value) => `${format(value)}${unit}`)
          }
        ],
        series: [
          {},
          ...drawn.map((one) => ({
            label: one.label,
            stroke: colour(one.colour),
            ...(stacked ? { fill: `color-mix(in srgb, ${colour(one.colour)} 45%, ${colour('surface')})` } : {}),
            width: 1.5,
            points: { show: false }
          }))
        ]
      }
      plot.current = new UPlot(options, dataOf(given.current, stacked), element)
    }
    void build()
    const resized = new ResizeObserver(() => {
      if (element !== null) plot.current?.setSize({ width: Math.max(element.clientWidth, 120), height })
    })
    if (element !== null) resized.observe(element)
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    scheme.addEventListener('change', build)
    return () => {
      gone = true
      resized.disconnect()
      scheme.removeEventListener('change', build)
      plot.current?.destroy()
      plot.current = undefined
    }
  }, [shape, stacked, height])
  useEffect(() => {
    plot.current?.setData(dataOf(given.current, stacked))
  }, [times, series])
  return html`<figure class="chart">
    <figcaption>${title} <span class="small">${summary}</span></figcaption>
    <div ref=${box} aria-hidden="true"></div>
    <${Legend} series=${series} time=${at === undefined ? undefined : times[at]} at=${at} unit=${unit} format=${format} />
  </figure>`
}

/**
 * The names of the series, and their values where the pointer is.
 * @param {{ series: readonly { label: string, colour: string, values: readonly (number | null)[] }[], time: number | undefined, at: number | undefined, unit: string, format: (value: number) => string }} props
 */
function Legend({ series, time, at, unit, format }) {
  const readout = (/** @type {readonly (number | null)[]} */ values) => {
    const value = at === undefined || time === undefined ? undefined : values[at]
    return value === undefined ? '' : value === null ? ' –' : ` ${format(value)}${unit}`
  }
  return html`<ul class="legend" aria-hidden="true">
    ${series.map(
      ({ label, colour: name, values }) => html`<li key=${label}>
        <svg viewBox="0 0 10 10"><rect width="10" height="10" rx="2" class=${`fill-${name}`} /></svg>${label}${readout(values)}
      </li>`
    )}
    ${time === undefined ? null : html`<li>at ${clockText(new Date(time * 1000))}</li>`}
  </ul>`
}

/**
 * Labels of an axis of time: hours and minutes, and seconds where two labels are less than a minute apart.
 * @param {readonly number[]} times seconds since 1970, ascending
 */
function timeLabels(times) {
  const [first = 0, second = first + 60] = times
  return times.map((time) => clockText(new Date(time * 1000)).slice(0, second - first < 60 ? 8 : 5))
}

/**
 * @param {{ times: readonly number[], series: readonly { values: readonly (number | null)[] }[] }} given
 * @param {boolean} stacked
 */
function dataOf({ times, series }, stacked) {
  if (!stacked) return [times, ...series.map(({ values }) => values)]
  const sums = times.map(() => 0)
  const stacks = [...series]
    .reverse()
    .map(({ values }) => values.map((value, at) => (sums[at] = (sums[at] ?? 0) + (value ?? 0))))
  return [times, ...stacks.reverse()]
}
