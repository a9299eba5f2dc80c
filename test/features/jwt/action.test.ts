import { createHmac } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Flow } from '../../../src/flow/flow.js'
import { makeFlow } from '../../helpers/flow.js'
import { headersOf, Kit, outcomeOf } from '../kit.js'
import { AUDIENCE, configFor, ISSUER, jwkOf, keyServer, type Signer, sign, signer, signText } from './issuer.js'

const RS = signer('RS256', 'one')
const ES = signer('ES256', 'two')
/** Another key with the name of the first. */
const FOREIGN = signer('RS256', 'one')
const bearer = (token: string) => makeFlow({ headers: ['Authorization', `Bearer ${token}`] })
const base64url = (text: string) => Buffer.from(text).toString('base64url')

function setUp(config: object, kit = new Kit()) {
  const phase = kit.waiting([['jwt-validation', config]])
  return {
    kit,
    now: () => kit.clock.wall(),
    run: async (flow: Flow) => outcomeOf(await phase(flow)),
    token: async (token: string) => outcomeOf(await phase(bearer(token))),
    verdict: async (flow: Flow) => phase(flow),
    read: (field: string, flow: Flow) => kit.read(`actions.service.jwt_validation.${field}`, flow)
  }
}

t.test('a token of every algorithm passes, and no other algorithm of the same key does', async (t) => {
  const all = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519']
  for (const alg of [...all, 'HS256', 'HS384', 'HS512']) {
    // RSA keys take long to make.
    const [key, foreign] = /^[RP]S/.test(alg)
      ? [
          { ...RS, alg },
          { ...FOREIGN, alg }
        ]
      : [signer(alg, 'k'), signer(alg, 'k')]
    const stand = setUp(configFor({ inline: [jwkOf(key)] }, { algorithms: [alg] }))
    const token = await sign(key, { now: stand.now() })
    t.equal(await stand.token(token), 'goes on', alg)
    t.equal(await stand.token(await sign(foreign, { now: stand.now() })), '401 JWT_SIGNATURE', `foreign ${alg}`)
    const other = setUp(
      configFor({ inline: [jwkOf(key)] }, { algorithms: ['RS256', 'ES256'].filter((one) => one !== alg) })
    )
    t.equal(await other.token(token), '401 JWT_ALGORITHM', `not allowed ${alg}`)
  }
})

t.test('what the token says is published', async (t) => {
  const server = await keyServer(t, RS)
  const stand = setUp(configFor({ additional_jkus: [server.url] }))
  const token = await sign(RS, { now: stand.now(), claims: { roles: ['admin'], n: 1.5 } })
  const flow = bearer(token)
  t.equal(await stand.run(flow), 'goes on')
  t.equal(stand.read('tokens[0].payload.sub', flow), 'user-1')
  t.same(stand.read('tokens[0].payload.roles', flow), ['admin'])
  t.same(stand.read('tokens[0].payload.exp > 0', flow), true)
  t.equal(stand.read('tokens[0].header.kid', flow), 'one')
  t.equal(stand.read('tokens[0].location', flow), 'header')
  t.equal(stand.read('tokens[0].location_property', flow), 'Authorization')
  t.equal(stand.read('tokens[0].signature', flow), token.split('.')[2])
  t.equal(stand.read('tokens[0].verified', flow), true)
  t.equal(stand.read('error.code', flow), '')
})

t.test('whole numbers of a payload keep their digits, in a header and as the key of a bucket', async (t) => {
  const server = await keyServer(t, RS)
  const kit = new Kit()
  const stand = setUp(configFor({ additional_jkus: [server.url] }), kit)
  const seconds = Math.floor(stand.now() / 1_000)
  const usual = `"iss":"${ISSUER}","aud":"${AUDIENCE}","iat":${seconds},"exp":${seconds + 300}`
  for (const id of [
    '1234567890123456789',
    '1234567890123456790',
    '9007199254740993',
    '12345678901234567890123',
    '42'
  ]) {
    const flow = bearer(await signText(RS, `{${usual},"id":${id},"deep":[{"id":${id}}]}`))
    t.equal(await stand.run(flow), 'goes on', id)
    const payload = 'actions.service.jwt_validation.tokens[0].payload'
    t.equal(kit.read(`string(${payload}.id)`, flow), id)
    t.equal(kit.read(`string(${payload}.deep[0].id)`, flow), id)
    kit.action('add-headers', { headers: { 'x-id': `\${${payload}.id}` } })(flow)
    t.equal(flow.request?.headers.get('x-id'), id)
  }
})

t.test('a verified token passes again at once, without a wait, until a claim or its key ends it', async (t) => {
  const server = await keyServer(t, RS)
  const kit = new Kit()
  const config = configFor({ additional_jkus: [server.url] }, { leeway: '10s' })
  const stand = setUp(config, kit)
  const token = await sign(RS, { now: stand.now() })
  t.equal(await stand.token(token), 'goes on')
  const now = kit.action('jwt-validation', config)
  t.equal(outcomeOf(now(bearer(token))), 'goes on', 'the same state after a compilation, and no promise')
  t.equal(
    outcomeOf(kit.action('jwt-validation', { ...config, issuer: { allow_list: [{ value: 'other' }] } })(bearer(token))),
    '401 JWT_ISSUER'
  )
  t.equal(
    await setUp(configFor({ additional_jkus: [server.url] }, { algorithms: ['ES256'] }), kit).token(token),
    '401 JWT_ALGORITHM'
  )
  const nameless = await sign({ ...RS, kid: undefined }, { now: stand.now() })
  t.equal(await stand.token(nameless), 'goes on')
  const named = { sources: { additional_jkus: [server.url] }, identification: { token_claims: ['kid'] } }
  const strict = setUp({ ...config, jws: { allowed_algorithms: ['RS256'], keys: named } }, kit)
  t.equal(await strict.token(nameless), '401 JWT_KEY_UNKNOWN')
  t.equal(await strict.token(token), 'goes on')
  t.equal(server.requests, 1)
  kit.clock.now += 309_000
  t.equal(outcomeOf(now(bearer(token))), 'goes on')
  kit.clock.now += 1_500
  t.equal(outcomeOf(now(bearer(token))), '401 JWT_EXPIRED')

  const long = await sign(RS, { now: stand.now(), claims: { exp: stand.now() / 1_000 + 86_400 } })
  t.equal(await stand.token(long), 'goes on')
  server.serve(ES)
  kit.clock.now += 3 * 3_600_000
  t.equal(await stand.token(long), '401 JWT_KEY_UNKNOWN', 'the key is withdrawn, the memory does not help')
})

t.test('a new key with the name of the old one is fetched, once', async (t) => {
  const server = await keyServer(t, RS)
  const stand = setUp(configFor({ additional_jkus: [server.url] }))
  t.equal(await stand.token(await sign(RS, { now: stand.now() })), 'goes on')
  const renamed = { ...signer('RS256'), kid: RS.kid }
  server.serve(renamed)
  stand.kit.clock.now += 11_000
  const token = await sign(renamed, { now: stand.now() })
  t.equal(await stand.token(token), 'goes on')
  t.equal(server.requests, 2)
  const forged = await sign({ ...signer('RS256'), kid: RS.kid }, { now: stand.now() })
  for (let i = 0; i < 5; i++) t.equal(await stand.token(forged), '401 JWT_SIGNATURE')
  t.equal(server.requests, 2, 'wrong signatures do not make us ask over and over')
  t.equal(await stand.token(await sign(RS, { now: stand.now() })), '401 JWT_SIGNATURE', 'the old key is withdrawn')
})

t.test('the longest token is what the configuration says', async (t) => {
  const inline = { inline: [jwkOf(RS)] }
  const usual = setUp(configFor(inline))
  const longer = setUp(configFor(inline, { max_token_length: 65_536 }))
  for (const [bytes, ...outcomes] of [
    [11_000, 'goes on', 'goes on'],
    [12_500, '401 JWT_MALFORMED', 'goes on'],
    [47_500, '401 JWT_MALFORMED', 'goes on'],
    [49_500, '401 JWT_MALFORMED', '401 JWT_MALFORMED']
  ] as const) {
    const token = await sign(RS, { now: usual.now(), claims: { groups: 'x'.repeat(bytes) } })
    t.same([await usual.token(token), await longer.token(token)], outcomes, `${token.length} characters`)
  }
})

t.test('claims', async (t) => {
  const stand = setUp(configFor({ inline: [jwkOf(RS)] }, { leeway: '5s' }))
  const now = Math.floor(stand.now() / 1_000)
  const cases: readonly (readonly [object, string])[] = [
    [{}, 'goes on'],
    [{ exp: undefined }, 'goes on'],
    [{ aud: [AUDIENCE] }, 'goes on'],
    [{ aud: ['a', AUDIENCE, 3] }, 'goes on'],
    [{ aud: 'https://api.test/' }, '401 JWT_AUDIENCE'],
    [{ aud: [] }, '401 JWT_AUDIENCE'],
    [{ aud: undefined }, '401 JWT_CLAIMS'],
    [{ aud: { [AUDIENCE]: true } }, '401 JWT_CLAIMS'],
    [{ iss: 'https://issuer.test' }, '401 JWT_ISSUER'],
    [{ iss: undefined }, '401 JWT_CLAIMS'],
    [{ iss: [ISSUER] }, '401 JWT_CLAIMS'],
    [{ exp: now - 4 }, 'goes on'],
    [{ exp: now - 6 }, '401 JWT_EXPIRED'],
    [{ exp: String(now + 60) }, '401 JWT_CLAIMS'],
    [{ exp: null }, '401 JWT_CLAIMS'],
    [{ nbf: now + 4 }, 'goes on'],
    [{ nbf: now + 7 }, '401 JWT_NOT_YET_VALID'],
    [{ iat: now + 7 }, '401 JWT_NOT_YET_VALID'],
    [{ iat: 'yesterday' }, '401 JWT_CLAIMS']
  ]
  for (const [claims, outcome] of cases) {
    t.equal(await stand.token(await sign(RS, { claims, now: stand.now() })), outcome, JSON.stringify(claims))
  }
  const none = setUp(configFor({ inline: [jwkOf(RS)] }, { audience: undefined }))
  t.equal(await none.token(await sign(RS, { claims: { aud: undefined }, now: none.now() })), 'goes on')
})

t.test('identity and access tokens expire, and none passes for another', async (t) => {
  const withType = (type: string) =>
    setUp(configFor({ inline: [jwkOf(RS)] }, { http: { tokens: [{ type, method: 'header', name: 'x-token' }] } }))
  const cases: readonly (readonly [string, object, object, string])[] = [
    ['at+jwt', { typ: 'at+jwt' }, {}, 'goes on'],
    ['at+jwt', { typ: 'application/AT+JWT' }, {}, 'goes on'],
    ['at+jwt', { typ: 'JWT' }, {}, '401 JWT_TYPE'],
    ['at+jwt', {}, {}, '401 JWT_TYPE'],
    ['it+jwt', { typ: 'JWT' }, {}, 'goes on'],
    ['access_token', { typ: 'JWT' }, {}, 'goes on'],
    ['access_token', { typ: 'at+jwt' }, {}, 'goes on'],
    ['id_token', { typ: 'JWT' }, {}, 'goes on'],
    ['access_token', {}, {}, 'goes on'],
    ['access_token', { typ: 'it+jwt' }, {}, '401 JWT_TYPE'],
    ['id_token', { typ: 'at+jwt' }, {}, '401 JWT_TYPE'],
    ['it+jwt', { typ: 'logout+jwt' }, {}, '401 JWT_TYPE'],
    ['access_token', {}, { exp: undefined }, '401 JWT_CLAIMS'],
    ['id_token', {}, { exp: undefined }, '401 JWT_CLAIMS'],
    ['jwt', { typ: 'logout+jwt' }, { exp: undefined }, 'goes on'],
    ['plain', {}, { exp: undefined }, 'goes on']
  ]
  for (const [type, header, claims, outcome] of cases) {
    const stand = withType(type)
    const token = await sign(RS, { header, claims, now: stand.now() })
    t.equal(
      await stand.run(makeFlow({ headers: ['X-Token', token] })),
      outcome,
      `${type} ${JSON.stringify({ header, claims })}`
    )
  }
})

t.test('forged tokens', async (t) => {
  const server = await keyServer(t, RS)
  const evil = await keyServer(t)
  const forger = FOREIGN
  evil.serve(forger)
  const algorithms = ['RS256', 'HS256', 'ES256']
  const stand = setUp(
    configFor({ additional_jkus: [server.url], shared_secrets: [{ value: 's'.repeat(40) }] }, { algorithms })
  )
  const now = stand.now()
  const good = await sign(RS, { now })
  const [head, body, signature] = good.split('.') as [string, string, string]
  const none = base64url('{"alg":"none","kid":"one"}')
  const pem = RS.publicKey.export({ type: 'spki', format: 'pem' }) as string
  const confusedHead = base64url('{"alg":"HS256","kid":"one"}')
  const confused = (key: string | Buffer) =>
    `${confusedHead}.${body}.${createHmac('sha256', key).update(`${confusedHead}.${body}`).digest('base64url')}`
  const withHeader = (header: object, key: Signer = forger) => sign(key, { now, header })
  const cases: readonly (readonly [string, string, string])[] = [
    ['none without a signature', `${none}.${body}.`, '401 JWT_MALFORMED'],
    ['none with one', `${none}.${body}.${signature}`, '401 JWT_ALGORITHM'],
    ['None', `${base64url('{"alg":"None"}')}.${body}.${signature}`, '401 JWT_ALGORITHM'],
    ['HS256 with the public key as PEM', confused(pem), '401 JWT_SIGNATURE'],
    ['HS256 with its bytes', confused(RS.publicKey.export({ type: 'spki', format: 'der' })), '401 JWT_SIGNATURE'],
    ['HS256 with its JSON', confused(JSON.stringify(jwkOf(RS))), '401 JWT_SIGNATURE'],
    ['HS256 with nothing', confused(''), '401 JWT_SIGNATURE'],
    ['a foreign key', await withHeader({}), '401 JWT_SIGNATURE'],
    ['a key that the token brings', await withHeader({ jwk: jwkOf(forger) }), '401 JWT_SIGNATURE'],
    ['a place that the token names', await withHeader({ jku: evil.url, x5u: evil.url }), '401 JWT_SIGNATURE'],
    ['both, and no name', await withHeader({ kid: undefined, jku: evil.url }), '401 JWT_SIGNATURE'],
    ['a path as the name', await withHeader({ kid: '../../../../dev/null' }), '401 JWT_KEY_UNKNOWN'],
    ['SQL as the name', await withHeader({ kid: "x' UNION SELECT 'k" }), '401 JWT_KEY_UNKNOWN'],
    ['a name of the prototype', await withHeader({ kid: '__proto__' }), '401 JWT_KEY_UNKNOWN'],
    ['a name that is no text', await withHeader({ kid: ['one'] }), '401 JWT_MALFORMED'],
    ['a critical extension', await withHeader({ crit: ['b64'], b64: true }, RS), '401 JWT_CRITICAL'],
    ['one part', head, '401 JWT_MALFORMED'],
    ['two parts', `${head}.${body}`, '401 JWT_MALFORMED'],
    ['four parts', `${good}.x`, '401 JWT_MALFORMED'],
    ['an encrypted token', 'a.b.c.d.e', '401 JWT_ENCRYPTED'],
    ['padding', `${head}=.${body}.${signature}`, '401 JWT_MALFORMED'],
    ['standard base64', `${head}.${body}.${signature.slice(0, -2)}+/`, '401 JWT_MALFORMED'],
    ['blanks inside', `${head}. ${body}.${signature}`, '401 JWT_MALFORMED'],
    ['a payload that is a list', `${head}.${base64url('[]')}.${signature}`, '401 JWT_MALFORMED'],
    ['a payload that is no JSON', `${head}.${base64url('{')}.${signature}`, '401 JWT_MALFORMED'],
    ['a duplicate claim', await signText(RS, `{"iss":"${ISSUER}","iss":"x"}`), '401 JWT_MALFORMED'],
    ['one hidden by an escape', await signText(RS, `{"iss":"${ISSUER}","\\u0069ss":"x"}`), '401 JWT_MALFORMED'],
    ['a duplicate parameter', `${base64url('{"alg":"RS256","alg":"none"}')}.${body}.${signature}`, '401 JWT_MALFORMED'],
    ['no UTF-8', `${head}.${Buffer.from([0x7b, 0xff, 0x7d]).toString('base64url')}.${signature}`, '401 JWT_MALFORMED'],
    ['endless nesting', await signText(RS, `{"a":${'['.repeat(5_000)}${']'.repeat(5_000)}}`), '401 JWT_MALFORMED'],
    ['a huge token', await sign(RS, { now, claims: { pad: 'x'.repeat(20_000) } }), '401 JWT_MALFORMED'],
    ['empty', '', '401 JWT_PREFIX']
  ]
  for (const [name, token, outcome] of cases) {
    const headers = ['authorization', `Bearer ${token}`.trim()]
    t.equal(await stand.run(makeFlow({ headers })), outcome, name)
    t.equal(await stand.run(makeFlow({ headers })), outcome, `${name}, once more`)
  }
  t.equal(await stand.token(good), 'goes on')
  t.equal(evil.requests, 0, 'nobody went where a token said')
})

t.test('no change of one character of a token is accepted', async (t) => {
  const stand = setUp(configFor({ inline: [jwkOf(ES)] }, { algorithms: ['ES256'] }))
  const good = await sign(ES, { now: stand.now() })
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.'
  for (let at = 0; at < good.length; at++) {
    const character = alphabet[(at * 7) % alphabet.length] as string
    if (character === good[at]) continue
    const outcome = await stand.token(good.slice(0, at) + character + good.slice(at + 1))
    if (!outcome.startsWith('401 ')) t.fail(`character ${at}: ${outcome}`)
  }
  // The last character of a part has bits that stand for nothing.
  for (const last of [...good.matchAll(/[^.](?=\.|$)/g)].map(({ index }) => index)) {
    for (const character of alphabet.replace(good[last] as string, '')) {
      const outcome = await stand.token(good.slice(0, last) + character + good.slice(last + 1))
      if (!outcome.startsWith('401 ')) t.fail(`character ${last} as ${character}: ${outcome}`)
    }
  }
  t.equal(await stand.token(good), 'goes on')
})

t.test('the answer has a challenge, and nothing of the token', async (t) => {
  const stand = setUp(configFor({ inline: [jwkOf(RS)] }))
  const missing = await stand.verdict(makeFlow())
  t.equal(outcomeOf(missing), '401 JWT_MISSING')
  t.equal(headersOf(missing)['www-authenticate'], 'Bearer realm="sluice"')
  const token = await sign({ ...FOREIGN, kid: 'secret-name' }, { now: stand.now(), claims: { sub: 'secret-user' } })
  const flow = bearer(token)
  const wrong = await stand.verdict(flow)
  t.match(
    headersOf(wrong)['www-authenticate'],
    /^Bearer realm="sluice", error="invalid_token", error_description="[a-z ]+"$/
  )
  t.notMatch(JSON.stringify([wrong, stand.kit.logged, stand.read('error', flow)]), /secret-|eyJ/)
})

t.test('without enforcement everything passes and is told apart', async (t) => {
  const server = await keyServer(t, RS)
  server.answer = (_, response) => response.writeHead(500).end()
  const stand = setUp(configFor({ inline: [jwkOf(RS)] }, { enforce: false }))
  const flow = bearer(await sign(FOREIGN, { now: stand.now() }))
  t.equal(await stand.run(flow), 'goes on')
  t.equal(stand.read('tokens[0].verified', flow), false)
  t.equal(stand.read('tokens[0].payload.sub', flow), 'user-1')
  t.equal(stand.read('error.code', flow), 'JWT_SIGNATURE')
  const empty = makeFlow()
  t.equal(await stand.run(empty), 'goes on')
  t.same(stand.read('tokens', empty), [])
  t.equal(stand.read('error.code', empty), 'JWT_MISSING')
  const closed = await setUp(configFor({ additional_jkus: [server.url] })).verdict(bearer(await sign(RS)))
  t.equal(outcomeOf(closed), '503 JWT_KEYS_UNAVAILABLE')
  t.same(headersOf(closed), { 'retry-after': '2' })
  const down = setUp(configFor({ additional_jkus: [server.url] }, { enforce: false }))
  t.equal(await down.token(await sign(RS, { now: down.now() })), 'goes on')
})

t.test('a token in a header', async (t) => {
  const place = (name: string, prefix?: string) => ({
    http: { tokens: [{ type: 'jwt', method: 'header', name, ...(prefix === undefined ? {} : { prefix }) }] }
  })
  const sources = { inline: [jwkOf(RS)] }
  const stand = setUp(configFor(sources))
  const token = await sign(RS, { now: stand.now() })
  const headers: readonly (readonly [string[], string])[] = [
    [['AUTHORIZATION', `Bearer ${token}`], 'goes on'],
    [['authorization', `bearer ${token}`], 'goes on'],
    [['authorization', `Bearer   ${token}`], 'goes on'],
    [['authorization', token], '401 JWT_PREFIX'],
    [['authorization', `Basic ${token}`], '401 JWT_PREFIX'],
    [['authorization', `Bearer ${token}`, 'Authorization', `Bearer ${token}`], '401 JWT_REPEATED'],
    [['x-authorization', `Bearer ${token}`], '401 JWT_MISSING'],
    [['cookie', `authorization=${token}`], '401 JWT_MISSING']
  ]
  for (const [list, outcome] of headers) {
    t.equal(await stand.run(makeFlow({ headers: list })), outcome, list.map((one) => one.replace(token, 'T')).join(' '))
  }
  t.equal(
    await stand.run(makeFlow({ url: `http://app.example.com/?access_token=${token}&authorization=Bearer%20${token}` })),
    '401 JWT_MISSING',
    'never in the URL'
  )
  const chosen = setUp(configFor(sources, place('x-${req.method}-token', '${req.host}:')))
  t.equal(await chosen.run(makeFlow({ headers: ['X-GET-Token', `app.example.com:${token}`] })), 'goes on')
  t.equal(await chosen.run(makeFlow({ headers: ['X-GET-Token', token] })), '401 JWT_PREFIX')
  const issuers = setUp(configFor(sources, { issuer: { allow_list: [{ value: 'https://${req.host}/' }] } }))
  const own = await sign(RS, { now: stand.now(), claims: { iss: 'https://app.example.com/' } })
  t.equal(await issuers.token(own), 'goes on')
  t.equal(await issuers.token(token), '401 JWT_ISSUER')
})

t.test('a token in a body', async (t) => {
  const stand = setUp(
    configFor(
      { inline: [jwkOf(RS)] },
      { http: { tokens: [{ type: 'jwt', method: 'body', name: 'Token', prefix: 'v1.' }] } }
    )
  )
  const token = `v1.${await sign(RS, { now: stand.now() })}`
  const JSON_TYPE = 'application/json; charset=utf-8'
  const FORM = 'application/x-www-form-urlencoded'
  const cases: readonly (readonly [string, string, string, string, string[]?])[] = [
    ['POST', JSON_TYPE, JSON.stringify({ a: 1, token }), 'goes on'],
    ['PUT', 'Application/JSON', JSON.stringify({ TOKEN: token }), 'goes on'],
    ['PATCH', FORM, `a=b&token=${token}`, 'goes on'],
    ['POST', FORM, `${encodeURIComponent('TOKEN')}=${encodeURIComponent(token)}`, 'goes on'],
    ['GET', JSON_TYPE, JSON.stringify({ token }), '401 JWT_BODY_METHOD'],
    ['DELETE', FORM, `token=${token}`, '401 JWT_BODY_METHOD'],
    ['POST', 'text/plain', JSON.stringify({ token }), '401 JWT_BODY_TYPE'],
    ['POST', 'application/jsonp', JSON.stringify({ token }), '401 JWT_BODY_TYPE'],
    ['POST', JSON_TYPE, JSON.stringify({ token }), '401 JWT_BODY_TYPE', ['content-encoding', 'gzip']],
    ['POST', JSON_TYPE, JSON.stringify({ token }), '401 JWT_BODY_TYPE', ['content-type', FORM]],
    ['POST', JSON_TYPE, `token=${token}`, '401 JWT_BODY_JSON'],
    ['POST', JSON_TYPE, JSON.stringify([{ token }]), '401 JWT_BODY_JSON'],
    ['POST', JSON_TYPE, `{"token":"${token}","token":"${token}"}`, '401 JWT_BODY_JSON'],
    ['POST', JSON_TYPE, `{"token":"${token}","Token":"${token}"}`, '401 JWT_REPEATED'],
    ['POST', JSON_TYPE, JSON.stringify({ token: [token] }), '401 JWT_MALFORMED'],
    ['POST', JSON_TYPE, JSON.stringify({ user: { token } }), '401 JWT_MISSING'],
    ['POST', JSON_TYPE, JSON.stringify({ token: token.slice(3) }), '401 JWT_PREFIX'],
    ['POST', FORM, `token=${token}&token=${token}`, '401 JWT_REPEATED'],
    ['POST', FORM, '', '401 JWT_MISSING']
  ]
  for (const [method, type, body, outcome, headers = []] of cases) {
    const flow = makeFlow({ method, body: Buffer.from(body), headers: ['content-type', type, ...headers] })
    t.equal(await stand.run(flow), outcome, `${method} ${type} ${body.replaceAll(token, 'T')} ${headers}`)
    t.equal(String(flow.request?.body), body, 'the body passes on as it came')
  }
  const binary = makeFlow({ method: 'POST', body: Buffer.from([0xff]), headers: ['content-type', FORM] })
  t.equal(await stand.run(binary), '401 JWT_BODY_FORM')
})

t.test('every one of several tokens must be there and valid', async (t) => {
  const stand = setUp(
    configFor(
      { inline: [jwkOf(RS), jwkOf(ES)] },
      {
        algorithms: ['RS256', 'ES256'],
        http: {
          tokens: [
            { type: 'it+jwt', method: 'body', name: '_id_token' },
            { type: 'access_token', method: 'header', name: 'Authorization', prefix: 'Bearer ' }
          ]
        }
      }
    )
  )
  const access = await sign(RS, { now: stand.now() })
  const identity = await sign(ES, { now: stand.now(), claims: { sub: 'user-2' } })
  const flow = (header: string, body: string) =>
    makeFlow({
      method: 'POST',
      headers: ['authorization', `Bearer ${header}`, 'content-type', 'application/json'],
      body: Buffer.from(JSON.stringify({ _id_token: body }))
    })
  const both = flow(access, identity)
  t.equal(await stand.run(both), 'goes on')
  t.same(stand.read('tokens.map(t, t.location)', both), ['header', 'body'])
  t.same(stand.read('tokens.map(t, t.payload.sub)', both), ['user-1', 'user-2'])
  t.equal(await stand.run(flow(access, access.slice(0, -10))), '401 JWT_SIGNATURE')
  t.equal(await stand.run(flow(identity, 'x')), '401 JWT_MALFORMED')
  t.equal(await stand.run(flow('x', identity)), '401 JWT_MALFORMED')
  t.equal(await stand.token(access), '401 JWT_BODY_METHOD')
})

t.test('keys from the document, from files and from shared secrets', async (t) => {
  const kit = new Kit()
  const pem = RS.publicKey.export({ type: 'spki', format: 'pem' }) as string
  const secret = 'correct horse battery staple, 40 bytes!!'
  const file = join(t.testdir(), 'keys.json')
  const algorithms = ['RS256', 'HS256']
  const token = await sign(RS, { now: kit.clock.wall() })
  const shared = (value: string, more: object = {}) => ({ shared_secrets: [{ value, ...more }] })
  const hs = (bytes: Buffer) => signHmac(bytes, kit.clock.wall())
  const cases: readonly (readonly [string, object, string, string])[] = [
    ['a key', { inline: [jwkOf(RS)] }, token, 'goes on'],
    ['a key as JSON', { inline: [JSON.stringify(jwkOf(RS))] }, token, 'goes on'],
    ['a set', { inline: [{ keys: [jwkOf(ES), jwkOf(RS)] }] }, token, 'goes on'],
    ['PEM', { inline: [pem] }, token, 'goes on'],
    ['another key', { inline: [jwkOf(FOREIGN)] }, token, '401 JWT_SIGNATURE'],
    ['a key with another name', { inline: [{ ...jwkOf(RS), kid: 'two' }] }, token, '401 JWT_KEY_UNKNOWN'],
    ['a key for another algorithm', { inline: [{ ...jwkOf(RS), alg: 'PS256' }] }, token, '401 JWT_KEY_UNKNOWN'],
    ['a secret', shared(secret), await hs(Buffer.from(secret)), 'goes on'],
    ['another', shared(secret.toUpperCase()), await hs(Buffer.from(secret)), '401 JWT_SIGNATURE'],
    [
      'base64',
      shared(Buffer.from(secret).toString('base64'), { encoding: 'base64' }),
      await hs(Buffer.from(secret)),
      'goes on'
    ],
    ['hex', shared(Buffer.from(secret).toString('hex'), { encoding: 'hex' }), await hs(Buffer.from(secret)), 'goes on'],
    ['with a name', shared(secret, { kid: 'x' }), await hs(Buffer.from(secret)), 'goes on'],
    [
      'for another algorithm',
      shared(secret.repeat(2), { algorithm: 'HS512' }),
      await hs(Buffer.from(secret.repeat(2))),
      '401 JWT_KEY_UNKNOWN'
    ]
  ]
  for (const [name, sources, one, outcome] of cases) {
    t.equal(await setUp(configFor(sources, { algorithms }), kit).token(one), outcome, name)
  }
  const stand = setUp(configFor({ files: [file] }), kit)
  t.equal(await stand.token(token), '503 JWT_KEYS_UNAVAILABLE', 'no such file')
  writeFileSync(file, JSON.stringify({ keys: [jwkOf(RS)] }))
  t.equal(await stand.token(token), '503 JWT_KEYS_UNAVAILABLE', 'looked at again after a while')
  kit.clock.now += 2_001
  t.equal(await stand.token(token), 'goes on')
  const vault = makeFlow({
    headers: ['authorization', `Bearer ${await hs(Buffer.from(secret))}`],
    units: { secret: (vault, name) => (vault === 'main' && name === 'jwt' ? secret : undefined) }
  })
  const fromVault = (name: string) =>
    setUp(configFor(shared(`\${secrets.get('main', '${name}')}`), { algorithms }), kit)
  t.equal(await fromVault('jwt').run(vault), 'goes on')
  t.equal(await fromVault('other').run(vault), '500 POLICY_EXPRESSION', 'a secret that is not there fails closed')
  t.notMatch(kit.logged.join('\n'), /correct horse|eyJ/)
})

async function signHmac(secret: Buffer, now: number): Promise<string> {
  const head = base64url('{"alg":"HS256"}')
  const body = base64url(JSON.stringify({ iss: ISSUER, aud: AUDIENCE, exp: now / 1_000 + 60 }))
  return `${head}.${body}.${createHmac('sha256', secret).update(`${head}.${body}`).digest('base64url')}`
}

t.test('documents', async (t) => {
  const kit = new Kit()
  const problems = (config: unknown) => kit.problems('jwt-validation', config)
  const sources = { additional_jkus: ['https://issuer.test/jwks.json'] }
  const keysOf = (keys: unknown) => ({ ...configFor({}), jws: { allowed_algorithms: ['RS256'], keys } })
  for (const keys of [
    { sources },
    [{ sources }],
    [{ sources: [sources], identification: [{ token_claims: ['kid'] }] }]
  ]) {
    t.same(problems(keysOf(keys)), [])
  }
  t.match(problems({ ...configFor(sources), audience: {} }), [/^warning CONFIG_UNUSED .*audience/])
  const wrong: readonly (readonly [unknown, RegExp])[] = [
    [keysOf({ sources: {} }), /names no source of keys/],
    [keysOf({ sources: { additional_jkus: ['ftp://a.test'] } }), /not an absolute http or https URL/],
    [keysOf({ sources: { additional_jkus: ['${nothing}'] } }), /EXPRESSION_UNKNOWN/],
    [keysOf({ sources: { files: ['keys.json'] } }), /must be an absolute path/],
    [keysOf({ sources: { inline: ['nothing'] } }), /no key that checks signatures/],
    [keysOf({ sources: { inline: [{ kty: 'RSA', n: 'AQAB', e: 'AQAB' }] } }), /no key that checks signatures/],
    [keysOf({ sources: { inline: [RS.privateKey.export({ format: 'jwk' })] } }), /no key that checks signatures/],
    [keysOf({ sources: { inline: [RS.privateKey.export({ type: 'pkcs8', format: 'pem' })] } }), /no key that checks/],
    [keysOf({ sources: { shared_secrets: [{ value: 'hunter2' }] } }), /at least 32 bytes/],
    [
      keysOf({ sources: { shared_secrets: [{ value: RS.publicKey.export({ type: 'spki', format: 'pem' }) }] } }),
      /is no PEM/
    ],
    [configFor(sources, { algorithms: ['none'] }), /allowed_algorithms\[0\]/],
    [configFor(sources, { algorithms: [] }), /allowed_algorithms/],
    [configFor(sources, { leeway: '6m' }), /leeway/],
    [configFor(sources, { http: { tokens: [{ type: 'jwt', method: 'query', name: 'a' }] } }), /method/]
  ]
  for (const [config, message] of wrong) t.match(problems(config), [message], String(message))
  t.notMatch(problems(keysOf({ sources: { shared_secrets: [{ value: 'hunter2' }] } })).join(), /hunter2/)
  t.match(problems(keysOf({ sources: { additional_jkus: ['http://a.test/'] } })), [/^warning KEYS_UNPROTECTED/])
  t.match(problems(configFor(sources, { algorithms: ['HS256'] })), [/^warning KEYS_MISSING/])
})
