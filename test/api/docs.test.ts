import t from 'tap'
import { make, openAccount } from './account.js'
import { word } from './asking.js'

const browser = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }

t.test('the page needs no key and loads nothing from elsewhere', async (t) => {
  const { ask, faults } = await openAccount(t)
  const read = (path: string) => ask(path, { headers: { authorization: '', 'service-version': '' } })
  const page = await read('/docs')
  t.equal(page.status, 200)
  t.match(page.headers['content-type'], /^text\/html/)
  t.notMatch(page.text, /https?:|src="\/\//, 'the page names no host')
  const loaded = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => String(path))
  t.equal(loaded.length, 6)
  const types = new Map([
    ['css', /^text\/css/],
    ['js', /^(?:text|application)\/javascript/],
    ['png', /^image\/png/],
    ['json', /^application\/json/]
  ])
  for (const path of loaded) {
    const asset = await read(new URL(path, 'http://localhost/docs').pathname)
    t.equal(asset.status, 200, path)
    t.match(asset.headers['content-type'], types.get(path.slice(path.lastIndexOf('.') + 1)), path)
    t.equal(asset.headers['x-content-type-options'], 'nosniff', path)
    if (path.endsWith('.css')) t.notMatch(asset.text, /url\(["']?(?:https?:)?\/\/|@import/, `${path} loads no file`)
    if (path.endsWith('.json')) continue
    const policy = String(asset.headers['content-security-policy'])
    t.match(policy, /default-src 'none'/, path)
    t.match(policy, /script-src 'self'(?:;|$)/, path)
    t.match(policy, /connect-src 'self'(?:;|$)/, path)
    t.notMatch(policy, /https?:|\*|unsafe|\w\.\w/, 'a browser may go to no other host')
  }
  const script = await read('/docs/page.js')
  t.doesNotThrow(() => new Function(script.text), 'the script is one')
  t.notMatch(script.text, /https?:/)
  const again = await ask('/docs/swagger-ui.css', {
    headers: { 'if-none-match': String((await read('/docs/swagger-ui.css')).headers.etag) }
  })
  t.equal(again.status, 304)
  t.same(faults, [])
})

t.test('only the files of the page are there', async (t) => {
  const { ask } = await openAccount(t)
  for (const path of [
    '/docs/',
    '/docs/index.html',
    '/docs/..%2fpackage.json',
    '/docs/oauth2-redirect.html',
    '/static'
  ]) {
    t.equal((await ask(path, { headers: browser })).status, 404, path)
  }
  t.equal((await ask('/docs', { method: 'POST' })).status, 405)
  t.equal((await ask('/docs', { headers: { ...browser, host: 'evil.example' } })).status, 403)
})

t.test('the document says all that a call from the page needs', async (t) => {
  const { ask, port } = await openAccount(t)
  const { json } = await ask('/openapi.json', { key: undefined })
  t.same(json.security, [{ key: [] }])
  t.match(json.components.securitySchemes.key, { type: 'http', scheme: 'bearer' }, 'what the page asks a key by')
  t.match(json.components.parameters.service_version, {
    name: 'service-version',
    in: 'header',
    schema: { enum: ['2'], default: '2' }
  })
  const origin = { origin: `http://127.0.0.1:${port}` }
  t.equal((await ask('/ip_policies', { headers: origin })).status, 200, 'a call of the page itself')
  const without = await ask('/ip_policies', { headers: { ...origin, authorization: '' } })
  t.equal(word(t, without), 'AUTH_MALFORMED', 'and it needs the key')
})

t.test('an IP restriction of type dashboard guards the pages and nothing else', async (t) => {
  const { ask, control, logged } = await openAccount(t)
  const policy = await make(ask, '/ip_policies')
  const body = { type: 'dashboard', ip_policy_ids: [policy.id] }
  const { id } = await make(ask, '/ip_restrictions', body)
  t.equal((await ask('/docs')).status, 200, 'it is not enforced')
  t.match(logged.at(-1), { fields: { client: '127.0.0.1', type: 'dashboard' } })
  t.same(control.access.addressCounts.dashboard, { refused: 0, warned: 1 })
  const enforced = await ask(`/ip_restrictions/${id}`, { method: 'PATCH', body: { enforced: true } })
  t.equal(enforced.status, 200, 'it shuts nobody out of the API')
  for (const path of ['/', '/docs', '/docs/page.js', '/docs/swagger-ui.css']) {
    const refused = await ask(path)
    t.equal(refused.status, 403, path)
    t.equal(word(t, refused), 'IP_NOT_ALLOWED')
  }
  const page = await ask('/docs', { headers: browser })
  t.equal(page.status, 403)
  t.match(page.headers['content-type'], /^text\/html/)
  t.match(page.text, /ERR_SLUICE_IP_NOT_ALLOWED/)
  t.same(control.access.addressCounts.dashboard, { refused: 5, warned: 1 })
  t.equal((await ask('/ip_policies')).status, 200, 'the API has a restriction of its own')
  t.equal((await ask('/openapi.json')).status, 200)
  await make(ask, '/ip_policy_rules', { cidr: '127.0.0.0/8', ip_policy_id: policy.id, action: 'allow' })
  t.equal((await ask('/docs')).status, 200, 'rules count at once')
  t.equal((await ask(`/ip_restrictions/${id}`, { method: 'DELETE' })).status, 204)
  t.same(control.access.addressCounts.api, { refused: 0, warned: 0 })
})
