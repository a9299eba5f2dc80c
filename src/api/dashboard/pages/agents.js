/** Agents: who is connected, what they serve, and commands to them. */

import { call } from './api.js'
import { Credentials } from './record-lists.js'
import { Action, Empty, html, Listed, Page, refusalOf, Table, useList, When } from './ui.js'

const EVERY = 5_000
const COMMAND = 'sluice agent --server localhost:4443 --ca data/agents/ca.pem --https app.example.com --forward 3000'

/** The page. */
export default function AgentsPage() {
  const sessions = useList('/tunnel_sessions', 'tunnel_sessions', { every: EVERY })
  const tunnels = useList('/tunnels', 'tunnels', { every: EVERY })
  const reload = () => Promise.all([sessions.reload(), tunnels.reload()])
  const command = (/** @type {string} */ id, /** @type {string} */ name) =>
    call('POST', `/tunnel_sessions/${id}/${name}`).then(reload)
  const reason = refusalOf('tunnel_session.command')
  const empty = html`<${Empty} title="No agent is connected" command=${COMMAND}>
    An agent connects from where a service runs and serves it under a name of yours, without an open port there. It needs the token
    of a credential (<code>POST /credentials</code>).
  <//>`
  return html`<${Page} title="Agents" lead="Connected agents and their tunnels.">
    <${Listed} list=${sessions}>
      <${Table}
        label="Sessions of agents"
        rows=${sessions.rows ?? []}
        id=${(/** @type {any} */ row) => row.id}
        empty=${empty}
        columns=${[
          { title: 'Session', cell: (/** @type {any} */ row) => html`<code>${row.id}</code>` },
          { title: 'Address', cell: (/** @type {any} */ row) => row.ip },
          { title: 'Version', cell: (/** @type {any} */ row) => `${row.agent_version} ${row.os}` },
          { title: 'Metadata', cell: (/** @type {any} */ row) => row.metadata },
          { title: 'Since', cell: (/** @type {any} */ row) => html`<${When} at=${row.started_at} />` },
          {
            title: 'Commands',
            cell: (/** @type {any} */ row) => html`<div class="actions">
              <${Action}
                label="Disconnect"
                tone="danger"
                reason=${reason}
                confirm=${`Stops the agent at ${row.ip}. Its services become unreachable, and it does not reconnect.`}
                run=${() => command(row.id, 'stop')}
              />
              <${Action} label="Restart" reason=${reason} run=${() => command(row.id, 'restart')} />
              <${Action}
                label="Update"
                reason=${reason}
                confirm="The agent is asked to replace itself by a newer version. One that cannot says so, and goes on as it is."
                run=${() => command(row.id, 'update')}
              />
            </div>`
          }
        ]}
      />
    <//>
    <h2>Tunnels</h2>
    <${Listed} list=${tunnels}>
      <${Table}
        label="Tunnels"
        rows=${tunnels.rows ?? []}
        id=${(/** @type {any} */ row) => row.id}
        empty=${html`<p>No open tunnels.</p>`}
        columns=${[
          { title: 'URL or labels', cell: (/** @type {any} */ row) => row.public_url || labelsText(row.labels) },
          { title: 'Protocol', cell: (/** @type {any} */ row) => row.proto },
          { title: 'Forwards to', cell: (/** @type {any} */ row) => row.forwards_to },
          { title: 'Session', cell: (/** @type {any} */ row) => html`<code>${row.tunnel_session?.id ?? '–'}</code>` },
          { title: 'Since', cell: (/** @type {any} */ row) => html`<${When} at=${row.started_at} />` }
        ]}
      />
    <//>
    <${Credentials} />
  <//>`
}

/** @param {Record<string, string> | null} labels */
function labelsText(labels) {
  return Object.entries(labels ?? {})
    .map(([name, value]) => `${name}=${value}`)
    .join(', ')
}
