/** Lists of records that are made and deleted on the pages that show what they do. */

import { Create, Delete } from './records.js'
import { everyOf, html, Listed, Table, useList, useLoad, When } from './ui.js'

/** The credentials of agents. */
export function Credentials() {
  const list = useList('/credentials', 'credentials')
  return html`<h2>Credentials</h2>
    <div class="actions">
      <${Create}
        label="Create a credential"
        resource="credential"
        path="/credentials"
        fields=${[{ name: 'description', label: 'Description', hint: 'For people, such as the machine of the agent.' }]}
        body=${(/** @type {any} */ values) => values}
        shown="token"
        done=${list.reload}
      />
    </div>
    <${Listed} list=${list}>
      <${Table}
        label="Credentials"
        rows=${list.rows ?? []}
        id=${(/** @type {any} */ row) => row.id}
        empty=${html`<p>No credential: no agent can connect yet.</p>`}
        columns=${[
          { title: 'Credential', cell: (/** @type {any} */ row) => row.description || row.id },
          { title: 'Created', cell: (/** @type {any} */ row) => html`<${When} at=${row.created_at} />` },
          {
            title: 'Commands',
            cell: (/** @type {any} */ row) =>
              html`<${Delete} resource="credential" path=${`/credentials/${row.id}`} name=${row.description || row.id} done=${list.reload} />`
          }
        ]}
      />
    <//>`
}

const ACTIONS = /** @type {const} */ ([
  ['allow', 'allow'],
  ['deny', 'deny']
])

/** The rules of IP policies. */
export function IpRules() {
  const rules = useList('/ip_policy_rules', 'ip_policy_rules')
  const policies = useLoad(() => everyOf('/ip_policies', 'ip_policies'))
  const names = new Map((policies.data ?? []).map(({ id, description }) => [id, description || id]))
  const reload = () => Promise.all([rules.reload(), policies.reload()])
  return html`<h2>IP rules</h2>
    <div class="actions">
      <${Create}
        label="Create an IP policy"
        resource="ip_policy"
        path="/ip_policies"
        fields=${[{ name: 'description', label: 'Description', required: true }]}
        body=${(/** @type {any} */ values) => values}
        done=${reload}
      />
      <${Create}
        key=${[...names.keys()].join()}
        label="Create an IP rule"
        resource="ip_policy_rule"
        path="/ip_policy_rules"
        reason=${names.size === 0 ? 'A rule belongs to an IP policy, and there is none yet.' : undefined}
        fields=${[
          { name: 'ip_policy_id', label: 'IP policy', choices: [...names] },
          { name: 'cidr', label: 'Network', hint: '203.0.113.0/24', required: true },
          { name: 'action', label: 'Action', choices: ACTIONS }
        ]}
        body=${(/** @type {any} */ values) => values}
        done=${reload}
      />
    </div>
    <${Listed} list=${rules}>
      <${Table}
        label="IP rules"
        rows=${rules.rows ?? []}
        id=${(/** @type {any} */ row) => row.id}
        empty=${html`<p>No rule of an IP policy.</p>`}
        columns=${[
          { title: 'Network', cell: (/** @type {any} */ row) => row.cidr },
          { title: 'Action', cell: (/** @type {any} */ row) => row.action },
          { title: 'IP policy', cell: (/** @type {any} */ row) => names.get(row.ip_policy?.id) ?? row.ip_policy?.id },
          {
            title: 'Commands',
            cell: (/** @type {any} */ row) =>
              html`<${Delete} resource="ip_policy_rule" path=${`/ip_policy_rules/${row.id}`} name=${row.cidr} declared=${row.declared} done=${reload} />`
          }
        ]}
      />
    <//>`
}

/** Routes of the HTTPS edges that the API holds. */
export function EdgeRoutes() {
  const edges = useLoad(() => everyOf('/edges/https', 'https_edges'))
  const backends = useLoad(() => everyOf('/backends/static', 'backends'))
  const own = (edges.data ?? []).filter((edge) => edge.declared === undefined)
  const rows = (edges.data ?? []).flatMap((edge) =>
    edge.routes.map((/** @type {any} */ route) => ({
      ...route,
      edge,
      title: `${edge.hostports.join(', ')} ${route.match}`
    }))
  )
  const reason =
    own.length === 0
      ? 'A route belongs to an HTTPS edge of the API, and there is none; a site file has its routes itself.'
      : (backends.data ?? []).length === 0
        ? 'A route leads to a backend, and there is none yet.'
        : undefined
  return html`<h2>Routes of HTTPS edges</h2>
    <div class="actions">
      <${Create}
        key=${`${own.length} ${backends.data?.length}`}
        label="Create a route"
        resource="https_edge_route"
        path=${(/** @type {any} */ { edge }) => `/edges/https/${edge}/routes`}
        reason=${reason}
        fields=${[
          { name: 'edge', label: 'Site', choices: own.map(({ id, hostports }) => [id, hostports.join(', ')]) },
          { name: 'match', label: 'Path', value: '/', required: true },
          { name: 'backend', label: 'Backend', choices: (backends.data ?? []).map(({ id, address }) => [id, address]) }
        ]}
        body=${(/** @type {any} */ { match, backend }) => ({ match_type: 'path_prefix', match, backend: { backend_id: backend } })}
        done=${edges.reload}
      />
    </div>
    <${Table}
      label="Routes of HTTPS edges"
      rows=${rows}
      id=${(/** @type {any} */ row) => row.id}
      empty=${html`<p>No HTTPS edge has a route.</p>`}
      columns=${[
        { title: 'Route', cell: (/** @type {any} */ row) => row.title },
        {
          title: 'Commands',
          cell: (/** @type {any} */ row) =>
            html`<${Delete} resource="https_edge_route" path=${`/edges/https/${row.edge.id}/routes/${row.id}`} name=${row.title} declared=${row.declared} done=${edges.reload} />`
        }
      ]}
    />`
}
