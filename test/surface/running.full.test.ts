import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import Sqlite from 'libsql'
import t from 'tap'
import { Build } from './build.js'
import { boardKinds, CookieStyle } from './product.js'
import { sameAsRecorded } from './recorded.js'

/** What a running product shows and leaves behind. Recorded again with SLUICE_RECORD=1 (see `recorded.ts`). */

const POLICY = `on_http_request:
  - name: reserved
    expressions: ["req.url.path.startsWith('/.sluice') || req.url.path.startsWith('/ngrok') || req.url.path == '/app'"]
    actions:
      - type: oauth
        config: { provider: github, client_id: app, client_secret: secret, auth_id: here }
  - name: refused
    expressions: ["req.url.path == '/denied'"]
    actions:
      - { type: log, config: { metadata: { reason: none } } }
      - { type: deny, config: { status_code: 403 } }
`

const cwd = t.testdir({ 'policy.yaml': POLICY })
const upstream = createServer((_request, response) => response.end('ok')).listen(0, '127.0.0.1')
await once(upstream, 'listening')
const product = new Build('dist-test/test/surface/watched')
const metricsFile = join(cwd, 'metrics.txt')
const target = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`
const serving = await product.start(cwd, ['--agents', '127.0.0.1:0', '--upstream', target, '--policy', 'policy.yaml'], {
  SURFACE_METRICS: metricsFile
})
t.teardown(async () => {
  await serving.stop()
  upstream.closeAllConnections()
  upstream.close()
})

const PARTIAL = /\.[0-9a-f]{12}$/

t.test('metrics with type, labels, buckets and help', async (t) => {
  const { text } = await serving.call('/metrics')
  const lines = (await readFile(metricsFile, 'utf8')).split('\n').sort()
  const registered = lines.map((line) => line.split(' ')[0] as string)
  const scraped = [...text.matchAll(/^# TYPE (\S+) /gm)].map(([, name]) => String(name)).sort()
  t.same(scraped, registered, '/metrics shows what is registered')
  await sameAsRecorded(t, 'metrics', lines)
})

t.test('reserved paths: of logins, and of the management API without a key', async (t) => {
  const lines: string[] = []
  const headers = { host: 'app.example.com', accept: 'text/html' }
  for (const path of [
    '/app',
    '/.sluice/login',
    '/.sluice/logout',
    '/.sluice/callback',
    '/ngrok/login',
    '/ngrok/logout'
  ]) {
    const answer = await serving.send(path, { headers })
    const cookies = [answer.headers['set-cookie'] ?? []].flat().map(withoutValue)
    const code = answer.headers['sluice-error-code'] ?? ''
    lines.push(`traffic ${path} ${answer.status} ${code} ${cookies.join(' | ')}`.trim())
  }
  for (const path of ['/healthz', '/readyz', '/metrics', '/openapi.json', '/docs', '/docs/', '/account', '/']) {
    const anonymous = { authorization: '' }
    lines.push(
      `api ${path} ${(await serving.call(path, { headers: anonymous })).status} with a key ${(await serving.call(path)).status}`
    )
  }
  await sameAsRecorded(t, 'reserved-paths', lines)
})

/** A Set-Cookie value without what is random: value, tag and id of the attempt. */
function withoutValue(cookie: string): string {
  return cookie.replace(
    /^([^=]*?)sl[0-9a-f]{12}(\.[^=]*)?=[^;]*/,
    (_, name, id) => `${name}<tag>${id ? '.<id>' : ''}=<value>`
  )
}

t.test('names of cookies', async (t) => {
  const lines = [
    [false, undefined],
    [true, undefined],
    [true, 'example.com']
  ].map(([secure, domain]) => {
    const style = new CookieStyle('app.', 'sl0123456789ab', secure as boolean, domain as string | undefined)
    return [style.session, style.activity, style.set(style.attempt('a1'), 'value', 60)].join(' | ')
  })
  await sameAsRecorded(t, 'cookies', lines)
})

t.test('the lines of the access log', async (t) => {
  await serving.send('/plain?a=1&token=x', { headers: { host: 'log.example.com' } })
  await serving.send('/denied', { headers: { host: 'log.example.com' } })
  const lines: string[] = []
  for (const path of ['/plain', '/denied']) {
    const line = await serving.launched.line('exchange', { path })
    lines.push(
      `${path}: ${Object.entries(line)
        .map(([name, value]) => `${name} ${typeof value}`)
        .join(', ')}`
    )
  }
  await sameAsRecorded(t, 'access-log', lines)
})

t.test('files of the data folder, tables of the store, kinds on its board', async (t) => {
  // A file that is being written stands under a name of its own until it is whole.
  const names = (await readdir(join(cwd, 'data'), { recursive: true })).map((name) => name.replace(PARTIAL, ''))
  const lines = [...new Set(names)].sort().map((name) => `file ${name}`)
  const store = new Sqlite(join(cwd, 'data', 'sluice.db'), { readonly: true } as Sqlite.Options)
  try {
    const rows = store.prepare(
      "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name"
    )
    for (const { type, name, sql } of rows.all() as Record<string, string>[]) lines.push(`${type} ${name}: ${sql}`)
  } finally {
    store.close()
  }
  lines.push(...boardKinds.map((kind) => `board ${kind}`))
  await sameAsRecorded(t, 'data', lines)
})
