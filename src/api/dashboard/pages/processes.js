/** Processes that serve this configuration, and whether they are well. */

import { call } from './api.js'
import { readiness } from './lights.js'
import { Badge, bytesText, durationText, Facts, html, Page, Problem, sinceText, Table, useLoad, When } from './ui.js'

const EVERY = 5_000

/** The page. */
export default function ProcessesPage() {
  const list = useLoad(() => call('GET', '/processes'), [], { every: EVERY })
  const ready = useLoad(readiness, [], { every: EVERY })
  const { status, reasons = [] } = ready.data ?? {}
  return html`<${Page} title="Processes" lead="All Sluice processes that share this configuration.">
    <${Problem} error=${ready.error} />
    ${
      ready.data === undefined
        ? null
        : html`<div class="panel">
            <${Facts}
              entries=${[
                ['This process', html`<${Badge} tone=${status === 'ready' ? 'good' : 'bad'}>${status}<//>`],
                ['Why', reasons.length === 0 ? undefined : reasons.join(', ')]
              ]}
            />
          </div>`
    }
    <${Problem} error=${list.error} />
    ${
      list.data === undefined
        ? null
        : html`
      <${Table}
        label="Processes"
        rows=${list.data.processes}
        id=${(/** @type {any} */ row) => row.id}
        tone=${(/** @type {any} */ row) => (row.gone_since !== null ? 'warn' : row.last_error !== null ? 'bad' : undefined)}
        columns=${[
          {
            title: 'Process',
            cell: (/** @type {any} */ row) =>
              html`<code>${row.id}</code>${row.self ? html` <${Badge} tone="info">this one<//>` : null}`
          },
          { title: 'Serves revision', numeric: true, cell: (/** @type {any} */ row) => row.applied_revision },
          {
            title: 'State',
            cell: (/** @type {any} */ row) =>
              row.gone_since !== null
                ? html`<${Badge} tone="warn">gone<//> since <${When} at=${row.gone_since} />`
                : row.last_error !== null
                  ? html`<${Badge} tone="bad">not applied<//> ${row.last_error}`
                  : html`<${Badge} tone="good">serves<//>`
          },
          { title: 'Version', cell: (/** @type {any} */ row) => row.version ?? '–' },
          {
            title: 'Uptime',
            cell: (/** @type {any} */ row) =>
              row.started_at === null ? '–' : html`<span title=${row.started_at}>${sinceText(row.started_at)}</span>`
          },
          { title: 'Memory', numeric: true, cell: (/** @type {any} */ row) => bytesText(row.memory?.rss) },
          {
            title: 'Loop delay',
            numeric: true,
            cell: (/** @type {any} */ row) => durationText(row.event_loop_delay_ms?.p99)
          },
          { title: 'Connections', numeric: true, cell: (/** @type {any} */ row) => row.connections ?? '–' },
          { title: 'Seen', cell: (/** @type {any} */ row) => html`<${When} at=${row.seen_at} />` }
        ]}
      />`
    }
  <//>`
}
