import t from 'tap'
import { makeFlow } from '../helpers/flow.js'
import { headersOf, Kit, outcomeOf } from './kit.js'
import { startRoute } from './route.js'

const kit = new Kit()
const APP = 'https://app.example.com'

function preflight(config: object, origin: string, method = 'GET', headers?: string) {
  const asked = headers === undefined ? [] : ['Access-Control-Request-Headers', headers]
  return kit.action(
    'cors',
    config
  )(makeFlow({ method: 'OPTIONS', headers: ['Origin', origin, 'Access-Control-Request-Method', method, ...asked] }))
}

const allows = (config: object, origin: string, method?: string, headers?: string): boolean =>
  headersOf(preflight(config, origin, method, headers))['Access-Control-Allow-Origin'] !== undefined

t.test('a preflight request is answered with what is allowed', async (t) => {
  const config = {
    origins: [APP],
    methods: ['PUT', 'DELETE'],
    headers: ['X-Api-Key'],
    credentials: true,
    max_age: '10m'
  }
  const verdict = preflight(config, APP, 'PUT', 'x-api-key')
  t.equal(outcomeOf(verdict), '204 -')
  t.same(headersOf(verdict), {
    'Access-Control-Allow-Origin': APP,
    'Access-Control-Allow-Credentials': 'true',
    'Access-Control-Allow-Methods': 'PUT, DELETE',
    'Access-Control-Allow-Headers': 'X-Api-Key',
    'Access-Control-Max-Age': '600',
    Vary: 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers'
  })
  t.ok(allows(config, APP, 'POST'), 'safe methods need no word')
  t.notOk(allows(config, APP, 'PATCH'))
  t.notOk(allows(config, APP, 'put'), 'methods are compared as they are written')
  t.notOk(allows(config, APP, 'PUT', 'x-api-key, x-other'))
  t.equal(outcomeOf(preflight(config, 'https://evil.example')), '204 -', 'the browser refuses, not the status')
})

t.test('origins are compared whole, or by the names below a host', async (t) => {
  const config = { origins: [APP, 'https://*.example.org', 'http://LOCALHOST:3000', 'https://a.example:443'] }
  for (const origin of [
    APP,
    'https://x.example.org',
    'https://x.y.example.org',
    'http://localhost:3000',
    'https://a.example'
  ])
    t.ok(allows(config, origin), origin)
  for (const origin of [
    'http://app.example.com',
    `${APP}:8443`,
    `${APP}.evil.example`,
    'https://example.org',
    'https://evilexample.org',
    'https://evil.example:1.example.org',
    'https://evil.example/.example.org',
    'http://x.example.org',
    'null'
  ])
    t.notOk(allows(config, origin), origin)
  const open = headersOf(preflight({ origins: ['*'], headers: ['*'] }, 'https://any.example', 'GET', 'x-any'))
  t.equal(open['Access-Control-Allow-Origin'], '*')
  t.notOk(allows({ origins: ['*'], headers: ['*'] }, APP, 'GET', 'authorization'), 'the star leaves authorization out')
})

t.test('what can never work is refused when it is written', async (t) => {
  const refused = (config: object) => kit.problems('cors', config)
  t.match(refused({ origins: ['*'], credentials: true }), [/^error CONFIG_INVALID .*origins\[0\].*credentials/])
  t.match(refused({ origins: [APP], headers: ['*'], credentials: true }), [/headers\[0\].*credentials/])
  t.match(refused({ origins: [APP], methods: ['GET POST'] }), [/methods\[0\]/])
  for (const origin of ['app.example.com', `${APP}/path`, 'ftp://a.example', 'https://a*.example.com', 'https://'])
    t.match(refused({ origins: [origin] }), [/origins\[0\].*is no origin/], origin)
  t.match(refused({ origins: [] }), [/origins.*at least 1/])
  t.match(refused({}), [/`origins` is missing/])
  t.match(refused({ origins: [APP], max_age: '25h' }), [/max_age/])
  t.same(refused({ origins: [APP, '*'], expose_headers: ['X-Total'], max_age: '0s' }), [])
})

t.test('answers carry the fields of the policy, whatever makes the answer', async (t) => {
  const rules = {
    on_http_request: [
      { actions: [{ type: 'cors', config: { origins: [APP], credentials: true, expose_headers: ['X-Total'] } }] },
      { expressions: ["req.url.path == '/private'"], actions: [{ type: 'deny' }] }
    ]
  }
  const { get } = await startRoute(
    t,
    (_request, response) => {
      response.setHeader('Access-Control-Allow-Origin', '*')
      response.setHeader('Access-Control-Max-Age', '5')
      response.end('body')
    },
    { traffic_policy: { value: JSON.stringify(rules) } }
  )
  const answer = await get({ headers: { origin: APP } })
  t.match(answer.headers, {
    'access-control-allow-origin': APP,
    'access-control-allow-credentials': 'true',
    'access-control-expose-headers': 'X-Total',
    vary: 'Origin'
  })
  t.equal(answer.headers['access-control-max-age'], undefined, "the upstream's own fields are gone")
  const refusal = await get({ path: '/private', headers: { origin: APP } })
  t.match(refusal, { status: 403, headers: { 'access-control-allow-origin': APP } }, 'pages can read refusals')
  const stranger = await get({ headers: { origin: 'https://evil.example' } })
  t.equal(stranger.status, 200)
  t.equal(stranger.headers['access-control-allow-origin'], undefined)
  t.equal(stranger.headers.vary, 'Origin')
  const asked = { origin: APP, 'access-control-request-method': 'PUT' }
  t.equal((await get({ method: 'OPTIONS', headers: asked })).status, 204, 'the upstream is not asked')
  t.equal((await get({ method: 'OPTIONS', headers: { origin: APP } })).status, 200, 'a plain OPTIONS goes on')
})

const KEYS = {
  name: 'per key',
  algorithm: 'sliding_window',
  capacity: 1,
  rate: '60s',
  bucket_key: ["req.headers['x-key'][0]"]
}

t.test('the module of a route answers preflight requests before filters, signatures, logins and limits', async (t) => {
  let asked = 0
  const { get, put, remove, api, path } = await startRoute(
    t,
    (_request, response) => {
      asked++
      response.end('body')
    },
    {
      cors: { origins: [APP], methods: ['PUT'], headers: ['X-Key'], expose_headers: ['X-Total'], max_age: 600 },
      user_agent_filter: { deny: ['.*'] },
      webhook_verification: { provider: 'TWILIO', secret: 'not-of-this-client' },
      traffic_policy: {
        value: JSON.stringify({
          on_http_request: [
            { actions: [{ type: 'rate-limit', config: KEYS }] },
            { actions: [{ type: 'basic-auth', config: { credentials: ['ann:a-long-password'] } }] }
          ]
        })
      }
    }
  )
  const asks = { origin: APP, 'access-control-request-method': 'PUT', 'access-control-request-headers': 'x-key' }
  for (let i = 0; i < 3; i++) {
    t.match(await get({ method: 'OPTIONS', headers: asks }), {
      status: 204,
      headers: {
        'access-control-allow-origin': APP,
        'access-control-allow-methods': 'PUT',
        'access-control-allow-headers': 'x-key',
        'access-control-max-age': '600'
      }
    })
  }
  const readable = { 'access-control-allow-origin': APP, 'access-control-expose-headers': 'x-total', vary: 'Origin' }
  const page = { origin: APP, 'x-key': 'k' }
  t.match(await get({ headers: page }), { status: 403, headers: readable }, 'refused by its name')
  await remove('user_agent_filter')
  t.match(await get({ headers: page }), { headers: readable, code: /WEBHOOK/ }, 'refused for its signature')
  await remove('webhook_verification')
  t.match(
    await get({ headers: page }),
    { status: 401, headers: readable },
    'preflights have taken nothing of the limit'
  )
  t.match(await get({ headers: page }), { status: 429, headers: readable })
  t.equal(asked, 0)
  await remove('traffic_policy')
  t.match(await get({ headers: page }), { status: 200, headers: readable })
  await put('cors', { origins: ['https://other.example.com'] })
  t.equal((await get({ headers: page })).headers['access-control-allow-origin'], undefined)
  const wrong = { origins: ['app.example.com'], headers: ['*'], credentials: true }
  const refused = await api('PUT', `${path}/cors`, wrong)
  t.match(refused, { status: 400, text: /origins\[0\].*is no origin/ })
  t.match(refused.text, /headers\[0\].*does not go with credentials/)
  t.equal((await api('PUT', `${path}/cors`, {})).status, 400, 'origins are required')
})

t.test(
  'an address that is refused gets no answer to a preflight request, and an upstream that is gone is told',
  async (t) => {
    const { get, made, put, server } = await startRoute(t, (_request, response) => response.end(), {
      cors: { origins: ['*'] }
    })
    const asks = { origin: APP, 'access-control-request-method': 'GET' }
    const closing = new Promise((closed) => server.close(closed))
    server.closeAllConnections()
    await closing
    t.match(await get({ headers: { origin: APP } }), {
      status: 502,
      headers: { 'access-control-allow-origin': '*' },
      code: 'UPSTREAM_REFUSED'
    })
    const policy = await made('/ip_policies', {})
    await put('ip_restriction', { ip_policy_ids: [policy.id] })
    const refused = await get({ method: 'OPTIONS', headers: asks })
    t.match(refused, { status: 403, code: 'IP_RESTRICTED' })
    t.equal(refused.headers['access-control-allow-origin'], undefined)
  }
)

t.test(
  'route and policy together give one answer, also where the policy puts another response in its place',
  async (t) => {
    const other = 'https://other.example.com'
    const { get } = await startRoute(t, (_request, response) => response.end(), {
      cors: { origins: ['*'], expose_headers: ['X-Route'] },
      traffic_policy: {
        value: JSON.stringify({
          on_http_request: [
            { expressions: ["req.url.path == '/own'"], actions: [{ type: 'cors', config: { origins: [other] } }] }
          ],
          on_http_response: [
            {
              expressions: ["req.url.path == '/replaced'"],
              actions: [{ type: 'custom-response', config: { status_code: 418 } }]
            }
          ]
        })
      }
    })
    const own = await get({ path: '/own', headers: { origin: other } })
    t.match(own.headers, { 'access-control-allow-origin': other, vary: 'Origin' }, 'the one of the policy, alone')
    t.equal(own.headers['access-control-expose-headers'], undefined)
    t.match(await get({ path: '/replaced', headers: { origin: other } }), {
      status: 418,
      headers: { 'access-control-allow-origin': '*' }
    })
  }
)
