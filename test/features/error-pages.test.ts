import { join } from 'node:path'
import t from 'tap'
import { startSluice } from '../helpers/sluice.js'
import { freePort } from '../proxy/free-port.js'

const POLICY = `on_http_request: [{ expressions: ["req.url.path == '/denied'"], actions: [{ type: deny }] }]`

t.test('errors of a site and of a route have pages of their own, from a file or in place', async (t) => {
  const port = await freePort()
  const sites = `listeners: [http://127.0.0.1:${port}]
sites:
  localhost:
    policy: { ${POLICY} }
    error_pages: { 403: errors/403.html, 5xx: { body: 'Back soon, \${req.url.path}.' } }
    routes:
      /: http://127.0.0.1:1
      /api/: { backend: "http://127.0.0.1:1", error_pages: { 502: { body: '{"error":"down"}' } } }
      /limited/:
        backend: http://127.0.0.1:1
        ip_restriction: { ip_policies: [nowhere] }
ip_policies: { nowhere: { allow: [192.0.2.0/24] } }
`
  const page = '<!doctype html>\n<h1>No</h1><p>${req.url.query_params["who"][0]} ${conn.client_ip}</p>\n'
  const folder = t.testdir({ 'sites.yaml': sites, errors: { '403.html': page } })
  await startSluice(t, { options: { SITE_FILE: join(folder, 'sites.yaml') } })
  const get = async (path: string, headers: Record<string, string> = {}) => {
    const answer = await fetch(`http://localhost:${port}${path}`, { headers })
    return { status: answer.status, headers: answer.headers, text: await answer.text() }
  }
  const denied = await get('/denied?who=<b>%26')
  t.equal(denied.status, 403)
  t.match(denied.text, '<p>&lt;b&gt;&amp; 127.0.0.1</p>', 'what a client writes is escaped in HTML')
  t.equal(denied.headers.get('content-type'), 'text/html; charset=utf-8')
  t.equal(denied.headers.get('sluice-error-code'), 'POLICY_DENIED', 'the code stays')
  const fallback = await get('/denied')
  t.match(fallback.text, /^403 Forbidden\ncode: POLICY_DENIED\n/, 'without a value the usual body takes its place')
  t.equal((await get('/a')).text, 'Back soon, /a.')
  const api = await get('/api/x', { accept: 'text/html' })
  t.match([api.text, api.headers.get('content-type')], ['{"error":"down"}', 'application/json'])
  t.match((await get('/limited/?who=x')).text, '<h1>No</h1>', 'refusals of modules before the policy have it, too')
})

t.test('mistakes in pages are reported with their places', async (t) => {
  const cases: [field: string, message: RegExp][] = [
    ['error_pages: { 200: { body: x } }', /"200" is no status such as 404/],
    ['error_pages: { 404: none.html }', /the page "none\.html" cannot be read/],
    ['error_pages: { 404: { body: "${req.nothing}" } }', /req\.nothing/]
  ]
  for (const [field, message] of cases) {
    const sites = `sites:\n  localhost:\n    backend: http://127.0.0.1:1\n    ${field}\n`
    const file = join(t.testdir({ 'sites.yaml': sites }), 'sites.yaml')
    const refused = await startSluice(t, { options: { SITE_FILE: file } }).catch((error: unknown) => error)
    t.match(refused, { problems: [{ problems: [{ line: 4, message }] }] }, field)
  }
})
