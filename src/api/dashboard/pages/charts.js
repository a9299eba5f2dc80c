/** Traffic of the last minutes as charts: requests by status, durations, and what was refused. */

import { call } from './api.js'
import { Chart } from './chart.js'
import { durationText, html, Problem, useEffect, useState, useStream } from './ui.js'

/** Seconds that are shown. */
const SHOWN = 180
const CLASSES = [
  { name: '2xx', colour: 'good' },
  { name: '3xx', colour: 'info' },
  { name: '4xx', colour: 'warn' },
  { name: '5xx', colour: 'bad' },
  { name: 'none', colour: 'muted' }
]

/** The charts, live. */
export function TrafficCharts() {
  const [seconds, set] = useState(/** @type {readonly any[]} */ ([]))
  const [error, fail] = useState(/** @type {unknown} */ (undefined))
  useEffect(() => {
    call('GET', `/traffic?seconds=${SHOWN}`).then(({ seconds: found }) => set(found), fail)
  }, [])
  useStream('/traffic/stream', (name, second) => {
    if (name === 'second') set((before) => [...before, second].slice(-SHOWN))
  })
  const times = seconds.map(({ at }) => Date.parse(at) / 1000)
  const last = seconds.slice(-10)
  const sum = (/** @type {(second: any) => number} */ read) => last.reduce((all, second) => all + read(second), 0)
  const rate = last.length === 0 ? 0 : sum(({ requests }) => requests) / last.length
  const slowest = Math.max(0, ...last.map(({ p99_ms: p99 }) => p99 ?? 0))
  const refused = sum((second) => second.refused)
  const failed = sum((second) => second.failed)
  return html`<section class="charts" aria-label="Traffic of the last minutes">
    <${Problem} error=${error} />
    <${Chart}
      title="Requests a second"
      summary=${`${rate.toFixed(rate < 10 ? 1 : 0)} in the last ten seconds`}
      times=${times}
      stacked=${true}
      series=${CLASSES.map(({ name, colour }) => ({ label: name, colour, values: seconds.map(({ statuses }) => statuses[name]) }))}
    />
    <${Chart}
      title="Duration"
      summary=${slowest === 0 ? 'no request' : `99 % within ${durationText(slowest)}`}
      times=${times}
      series=${[
        { label: 'p50', colour: 'info', values: seconds.map(({ p50_ms: p50 }) => p50) },
        { label: 'p99', colour: 'warn', values: seconds.map(({ p99_ms: p99 }) => p99) }
      ]}
      format=${(/** @type {number} */ value) => durationText(value)}
    />
    <${Chart}
      title="Refused and failed"
      summary=${`${refused} refused, ${failed} failed in the last ten seconds`}
      times=${times}
      series=${[
        { label: 'refused', colour: 'warn', values: seconds.map((second) => second.refused) },
        { label: 'failed', colour: 'bad', values: seconds.map((second) => second.failed) }
      ]}
    />
  </section>`
}
