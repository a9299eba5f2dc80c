/** Users: who has logged in at the sites, and their sessions, which can be ended. */

import { call } from './api.js'
import {
  Action,
  Empty,
  Facts,
  go,
  html,
  Listed,
  Page,
  Problem,
  refusalOf,
  Table,
  useList,
  useLoad,
  When
} from './ui.js'

const EVERY = 15_000
/** Sessions of one request, the most that the API returns. */
const PAGE = 100
/** Requests for sessions at a time. */
const MAX_PAGES = 5
const POLICY = `on_http_request:
  - actions:
      - type: openid-connect
        config:
          issuer_url: https://login.example.com
          client_id: shop
          client_secret: \${secrets.get('logins', 'shop')}`

/**
 * The page; `#/users/{user}` shows one.
 * @param {{ path: string[] }} props
 */
export default function UsersPage({ path: [open] }) {
  const reason = refusalOf('application_user.read')
  if (reason !== undefined) return html`<${Page} title="Users"><p class="note">${reason}</p><//>`
  return open === undefined ? html`<${List} />` : html`<${One} key=${open} id=${open} />`
}

/**
 * The newest sessions of these users; `more`: there are others.
 * @param {readonly string[]} users
 * @returns {Promise<{ rows: any[], more: boolean }>}
 */
async function sessionsOf(users) {
  const filter = `obj.application_user.id in ${JSON.stringify(users)}`
  const rows = []
  let query = `?${new URLSearchParams({ limit: String(PAGE), filter })}`
  for (let page = 0; page < MAX_PAGES; page++) {
    const found = await call('GET', `/app/sessions${query}`)
    rows.push(...found.application_sessions)
    if (found.next_page_uri === null) return { rows, more: false }
    query = new URL(found.next_page_uri).search
  }
  return { rows, more: true }
}

/** The best name of a user. @param {any} user */
const nameOf = ({ email, name, provider_user_id: id }) => email ?? name ?? id

function List() {
  const users = useList('/app/users', 'application_users', { every: EVERY })
  const ids = (users.rows ?? []).map(({ id }) => id)
  const sessions = useLoad(
    async () => (ids.length === 0 ? { rows: [], more: false } : await sessionsOf(ids)),
    [ids.join(' ')],
    { every: EVERY }
  )
  const reload = () => Promise.all([users.reload(), sessions.reload()])
  return html`<${Page} title="Users" lead="People who have logged in at your sites, newest first.">
    <${Problem} error=${sessions.error} />
    <${Listed} list=${users}>
      <${Table}
        label="Users"
        rows=${users.rows ?? []}
        id=${(/** @type {any} */ row) => row.id}
        place=${(/** @type {any} */ row) => `users/${row.id}`}
        empty=${html`<${Empty} title="Nobody has logged in" command=${POLICY}>A policy with a login lists its users here, for example:<//>`}
        columns=${[
          { title: 'User', cell: nameOf },
          { title: 'Name', cell: (/** @type {any} */ row) => row.name ?? '–' },
          { title: 'Provider', cell: (/** @type {any} */ row) => row.identity_provider.name },
          { title: 'Last active', cell: (/** @type {any} */ row) => html`<${When} at=${row.last_active} />` },
          { title: 'Last login', cell: (/** @type {any} */ row) => html`<${When} at=${row.last_login} />` },
          {
            title: 'Sessions',
            numeric: true,
            cell: (/** @type {any} */ row) => countOf(sessions.data, row.id)
          },
          {
            title: 'Commands',
            cell: (/** @type {any} */ row) => html`<${EndAll} user=${row} done=${reload} />`
          }
        ]}
      />
    <//>
  <//>`
}

/** @param {{ rows: any[], more: boolean } | undefined} sessions @param {string} user */
function countOf(sessions, user) {
  if (sessions === undefined) return '…'
  const count = sessions.rows.filter((row) => row.application_user.id === user).length
  return sessions.more ? `${count} or more` : count
}

/** Ends all sessions of a user. @param {{ user: any, done: () => unknown }} props */
function EndAll({ user, done }) {
  const end = async () => {
    await call('DELETE', `/app/users/${user.id}`)
    await done()
  }
  return html`<${Action}
    label="End all sessions"
    tone="danger"
    reason=${refusalOf('application_user.delete')}
    confirm=${`Logs ${nameOf(user)} out everywhere and removes the user from this list until the next login.`}
    run=${end}
    done="Ended"
  />`
}

/** @param {{ id: string }} props */
function One({ id }) {
  const user = useLoad(() => call('GET', `/app/users/${id}`), [id], { every: EVERY })
  const sessions = useLoad(() => sessionsOf([id]), [id], { every: EVERY })
  const { data } = user
  const back = html`<a href="#/users">All users</a>`
  if (data === undefined)
    return html`<${Page} title="User" lead=${back}>
      <${Problem} error=${user.error} />
      ${user.error === undefined ? html`<p class="wait" role="status">Loading …</p>` : null}
    <//>`
  const { name, url } = data.identity_provider
  return html`<${Page} title=${nameOf(data)} lead=${back} actions=${html`<${EndAll} user=${data} done=${() => go('users')} />`}>
    <${Problem} error=${user.error} />
    <div class="panel">
      <${Facts}
        entries=${[
          ['Name', data.name ?? undefined],
          ['Email', data.email ?? undefined],
          ['Provider', name],
          ['Issuer', url === '' ? undefined : html`<code>${url}</code>`],
          ['Id at the provider', html`<code>${data.provider_user_id}</code>`],
          ['First login', html`<${When} at=${data.created_at} />`],
          ['Last login', html`<${When} at=${data.last_login} />`],
          ['Last active', html`<${When} at=${data.last_active} />`],
          ['Id', html`<code>${id}</code>`]
        ]}
      />
    </div>
    <h2>Sessions</h2>
    <${Sessions} list=${sessions} />
  <//>`
}

/** @param {{ list: { data: { rows: any[], more: boolean } | undefined, error: unknown, reload: () => Promise<void> } }} props */
function Sessions({ list: { data, error, reload } }) {
  const reason = refusalOf('application_session.delete')
  if (data === undefined)
    return html`<${Problem} error=${error} />${error === undefined ? html`<p class="wait" role="status">Loading …</p>` : null}`
  return html`<${Problem} error=${error} />
    <${Table}
      label="Sessions"
      rows=${data.rows}
      id=${(/** @type {any} */ row) => row.id}
      empty=${html`<p>No open sessions.</p>`}
      columns=${[
        { title: 'Site', cell: (/** @type {any} */ row) => row.public_url },
        { title: 'Browser', cell: (/** @type {any} */ row) => browserText(row.browser_session?.user_agent) },
        { title: 'Client', cell: (/** @type {any} */ row) => row.browser_session?.ip_address || '–' },
        { title: 'Login', cell: (/** @type {any} */ row) => html`<${When} at=${row.created_at} />` },
        { title: 'Last active', cell: (/** @type {any} */ row) => html`<${When} at=${row.last_active} />` },
        { title: 'Expires', cell: (/** @type {any} */ row) => html`<${When} at=${row.expires_at} />` },
        {
          title: 'Commands',
          cell: (/** @type {any} */ row) => html`<${Action}
            label="End session"
            tone="danger"
            reason=${reason}
            confirm=${`Logs this browser out of ${row.public_url}.`}
            run=${() => call('DELETE', `/app/sessions/${row.id}`).then(reload)}
            done="Ended"
          />`
        }
      ]}
    />
    ${data.more ? html`<p class="note">The newest ${data.rows.length} sessions are listed.</p>` : null}`
}

/** @param {any} agent */
function browserText(agent) {
  if (agent === undefined || agent.raw === '') return '–'
  const { browser_name: name, browser_version: version, os_name: os } = agent
  if (name === null) return html`<code>${agent.raw.slice(0, 80)}</code>`
  return [name, version, os === null ? null : `on ${os}`].filter((word) => word !== null).join(' ')
}
