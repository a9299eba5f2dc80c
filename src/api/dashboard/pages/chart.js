/** Charts of numbers over time, drawn by uPlot, which is loaded with the first of them. */

import { urlOf } from './api.js'
import { html, useEffect, useRef } from './ui.js'

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
      reject(new Error('the library of charts cannot be loaded'))
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
        legend: { show: true, live: true },
        cursor: { drag: { x: false, y: false } },
        scales: {
          y: {
            range: (/** @type {any} */ _, /** @type {number} */ _least, /** @type {number} */ most) => [
              0,
              Math.max(most || 0, 1) * 1.05
            ]
          }
        },
        axes: [
          axis,
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
            points: { show: false },
            value: (
              /** @type {any} */ _self,
              /** @type {any} */ _v,
              /** @type {number} */ index,
              /** @type {number | null} */ at
            ) => {
              const value = at === null || at === undefined ? null : given.current.series[index - 1]?.values[at]
              return value === null || value === undefined ? '–' : `${format(value)}${unit}`
            }
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
  </figure>`
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
