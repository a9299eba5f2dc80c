/** Events: where they go, whether they arrive, and those that could not be delivered. */

import { call } from './api.js'
import { Create, Delete } from './records.js'
import { Action, Badge, bytesText, Empty, html, Listed, Page, refusalOf, Table, useList, When } from './ui.js'

const EVERY = 5_000
const COMMAND = `curl -X POST http://127.0.0.1:4040/event_destinations -H "authorization: Bearer $SLUICE_API_KEY" \\
  -H 'service-version: 2' -H 'content-type: application/json' \\
  -d '{"target": {"webhook": {"url": "https://example.com/hook"}}}'`
const TONES = /** @type {Record<string, string>} */ ({ ok: 'good', failing: 'bad', unsupported: 'warn' })

/**
 * The page; `#/events/{destination}` shows what could not be delivered there.
 * @param {{ path: string[] }} props
 */
export default function EventsPage({ path: [open] }) {
  const destinations = useList('/event_destinations', 'event_destinations', { every: EVERY })
  const subscriptions = useList('/event_subscriptions', 'event_subscriptions', { every: EVERY })
  const reason = refusalOf('event_destination.update')
  const test = async (/** @type {any} */ row) => {
    const { delivered, error } = await call('POST', `/event_destinations/${row.id}/test`)
    if (!delivered) throw new Error(`The test was not delivered: ${error}`)
  }
  const nameOf = (/** @type {string} */ id) => {
    const found = destinations.rows?.find((/** @type {any} */ row) => row.id === id)
    return found === undefined ? id : labelOf(found)
  }
  if (open !== undefined) return html`<${DeadLetters} id=${open} name=${nameOf(open)} />`
  return html`<${Page} title="Events" lead="Audit and traffic events sent to webhooks, files and cloud log services.">
    <h2>Destinations</h2>
    <div class="actions">
      <${Create}
        label="Create a destination"
        resource="event_destination"
        path="/event_destinations"
        fields=${[
          { name: 'url', label: 'URL of the webhook', hint: 'https://hooks.example.com/sluice', required: true },
          { name: 'description', label: 'Description' }
        ]}
        body=${(/** @type {any} */ { url, description }) => ({ description, target: { webhook: { url } } })}
        done=${destinations.reload}
      />
    </div>
    <${Listed} list=${destinations}>
      <${Table}
        label="Destinations of events"
        rows=${destinations.rows ?? []}
        id=${(/** @type {any} */ row) => row.id}
        tone=${(/** @type {any} */ row) => (row.delivery?.state === 'failing' ? 'bad' : undefined)}
        empty=${html`<${Empty} title="No destination" command=${COMMAND}>Events can be sent to webhooks, files, standard output and cloud log services.<//>`}
        columns=${[
          {
            title: 'Destination',
            cell: labelOf
          },
          {
            title: 'State',
            cell: (/** @type {any} */ { delivery }) =>
              delivery === null
                ? '–'
                : html`<${Badge} tone=${TONES[delivery.state]} title=${delivery.reason ?? ''}>${delivery.state}<//> ${delivery.state === 'ok' ? '' : (delivery.last_error ?? delivery.reason ?? '')}`
          },
          { title: 'Delivered', numeric: true, cell: (/** @type {any} */ row) => row.delivery?.delivered ?? '–' },
          { title: 'Waiting', numeric: true, cell: (/** @type {any} */ row) => row.delivery?.waiting ?? '–' },
          { title: 'Dropped', numeric: true, cell: (/** @type {any} */ row) => row.delivery?.dropped ?? '–' },
          {
            title: 'Not delivered',
            cell: (/** @type {any} */ row) =>
              html`<a href=${`#/events/${row.id}`}>${row.delivery?.dead_letters ?? 0}</a>`
          },
          {
            title: 'Commands',
            cell: (/** @type {any} */ row) =>
              html`<div class="actions">
                <${Action} label="Send a test" reason=${reason} run=${() => test(row)} done="Delivered" />
                <${Delete} resource="event_destination" path=${`/event_destinations/${row.id}`} name=${kindOf(row)} declared=${row.declared} done=${destinations.reload} />
              </div>`
          }
        ]}
      />
    <//>
    <h2>Subscriptions</h2>
    <${Listed} list=${subscriptions}>
      <${Table}
        label="Subscriptions"
        rows=${subscriptions.rows ?? []}
        id=${(/** @type {any} */ row) => row.id}
        empty=${html`<p>No subscriptions, so no events are sent. Create one with <code>POST /event_subscriptions</code>.</p>`}
        columns=${[
          { title: 'Subscription', cell: (/** @type {any} */ row) => row.description || row.id },
          {
            title: 'Types',
            cell: (/** @type {any} */ row) => row.sources.map((/** @type {any} */ source) => source.type).join(', ')
          },
          {
            title: 'Destinations',
            cell: (/** @type {any} */ row) => row.destinations.map((/** @type {any} */ { id }) => nameOf(id)).join(', ')
          }
        ]}
      />
    <//>
  <//>`
}

/** @param {any} row */
function labelOf(row) {
  return `${kindOf(row)}${row.description ? ` · ${row.description}` : ''}`
}

/** @param {any} row */
function kindOf({ target, id }) {
  const [kind, value] = Object.entries(target ?? {}).find(([, one]) => one !== null) ?? [id, {}]
  const { url, path, stream_arn: arn } = /** @type {any} */ (value) ?? {}
  return [kind, url ?? path ?? arn].filter((part) => part !== undefined).join(' ')
}

/** @param {{ id: string, name: string }} props */
function DeadLetters({ id, name }) {
  const list = useList(`/event_destinations/${id}/dead_letters`, 'dead_letters', { every: EVERY })
  const reason = refusalOf('dead_letters')
  const path = `/event_destinations/${id}`
  const again = (/** @type {Promise<unknown>} */ made) => made.then(() => list.reload())
  const none = (list.rows ?? []).length === 0
  return html`<${Page}
    title="Not delivered"
    lead=${html`Events for ${name} that could not be delivered. <a href="#/events">All destinations</a>`}
    actions=${html`<${Action}
        label="Deliver all again"
        reason=${reason ?? (none ? 'There is nothing to deliver.' : undefined)}
        run=${() => again(call('POST', `${path}/redeliver`))}
      />
      <${Action}
        label="Drop all"
        tone="danger"
        reason=${reason ?? (none ? 'There is nothing to drop.' : undefined)}
        confirm="These events are lost then."
        run=${() => again(call('DELETE', `${path}/dead_letters`))}
      />`}
  >
    <${Listed} list=${list}>
      <${Table}
        label="Events that could not be delivered"
        rows=${list.rows ?? []}
        id=${(/** @type {any} */ row) => row.id}
        empty=${html`<${Empty} title="All events were delivered">Events that a destination rejects permanently are listed here.<//>`}
        columns=${[
          { title: 'Event', cell: (/** @type {any} */ row) => html`<code>${row.event_id ?? row.id}</code>` },
          { title: 'Type', cell: (/** @type {any} */ row) => row.event_type ?? '–' },
          {
            title: 'At',
            cell: (/** @type {any} */ row) => html`<${When} at=${row.event_timestamp ?? row.created_at} />`
          },
          { title: 'Why', cell: (/** @type {any} */ row) => row.reason },
          { title: 'Attempts', numeric: true, cell: (/** @type {any} */ row) => row.attempts },
          { title: 'Size', numeric: true, cell: (/** @type {any} */ row) => bytesText(row.size) },
          {
            title: 'Commands',
            cell: (/** @type {any} */ row) => html`<div class="actions">
              <${Action} label="Deliver again" reason=${reason} run=${() => again(call('POST', `${path}/dead_letters/${row.id}/redeliver`))} />
              <${Action} label="Drop" tone="danger" reason=${reason} confirm="This deletes the event." run=${() => again(call('DELETE', `${path}/dead_letters/${row.id}`))} />
            </div>`
          }
        ]}
      />
    <//>
  <//>`
}
