import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { providerApi } from '../../../src/features/login/identities.js'
import { claimsIn, normalTokenAnswer } from '../../../src/features/login/openid.js'
import { defaultProviders, readOperatorProviders } from '../../../src/features/login/operator-providers.js'
import {
  type ApiProvider,
  type Json,
  PROVIDER_NAMES,
  PROVIDERS,
  profileOfClaims,
  scopesOf
} from '../../../src/features/login/providers.js'
import { systemClock } from '../../../src/lib/clock.js'
import { codeOf } from '../../../src/lib/errors.js'
import { createOutbound } from '../../../src/lib/http-client/outbound.js'

t.test('every provider has https addresses and scopes', async (t) => {
  t.equal(PROVIDER_NAMES.length, 8)
  for (const name of PROVIDER_NAMES) {
    const provider = PROVIDERS[name]
    t.ok(provider.scopes.length > 0, name)
    const addresses =
      provider.kind === 'api' ? [provider.authorization, provider.token, provider.api] : [provider.issuer]
    for (const address of addresses) t.equal(new URL(address).protocol, 'https:', address)
  }
  t.equal(scopesOf(PROVIDERS.linkedin, ['r_liteprofile', 'w_member_social']), 'w_member_social openid email profile')
  t.equal(scopesOf(PROVIDERS.twitch, []), 'user:read:email')
})

t.test('who the user is, from what each API answers', async (t) => {
  const answers: Record<string, unknown> = {
    '/user/profile': { user_id: 'amzn1.account.A', name: 'Ann', email: 'Ann@a.test' },
    '/me?fields=id,name,email': { id: '10', name: 'Ann', email: 'ann@a.test' },
    '/me': { id: 'guid', displayName: 'Ann', mail: 'ceo@victim.test', userPrincipalName: 'ann@a.test' },
    '/users': { data: [{ id: '7', login: 'ann', display_name: 'Ann', email: 'ann@a.test' }] }
  }
  const seen: Record<string, string | undefined>[] = []
  const server = createServer((request, response) => {
    seen.push(request.headers as Record<string, string | undefined>)
    response.setHeader('content-type', 'application/json').end(JSON.stringify(answers[request.url ?? '']))
  }).listen(0, '127.0.0.1')
  await new Promise((listening) => server.once('listening', listening))
  const outbound = createOutbound({ clock: systemClock, allowPrivate: true })
  t.teardown(() => {
    outbound.close()
    server.close()
  })
  const api = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const read = (provider: ApiProvider) =>
    provider.profile(
      providerApi({ outbound, clock: systemClock }, { ...provider, api }, 'client', 'token'),
      provider.vouches
    )
  for (const [name, id] of [
    ['amazon', 'amzn1.account.A'],
    ['facebook', '10'],
    ['microsoft', 'guid'],
    ['twitch', '7']
  ] as const) {
    t.match(await read(PROVIDERS[name] as ApiProvider), { id, name: 'Ann', emails: ['ann@a.test'] }, name)
  }
  t.match(seen[3], { authorization: 'Bearer token', 'client-id': 'client' })
  answers['/me'] = {
    id: 'g',
    displayName: 'Guest',
    mail: 'ceo@victim.test',
    userPrincipalName: 'ceo_victim.test#EXT#@a.test'
  }
  t.match(
    await read(PROVIDERS.microsoft as ApiProvider),
    { email: '', emails: [] },
    'a guest has no address that counts'
  )
  answers['/users'] = { data: [] }
  t.match(await read(PROVIDERS.twitch as ApiProvider), { id: '' })
  for (const wrong of [[], 'x', null, 1]) {
    answers['/me'] = wrong
    t.match(await read(PROVIDERS.microsoft as ApiProvider).catch((error: unknown) => error), { trouble: 'garbage' })
  }
})

t.test('an address counts when the provider vouches for it, and for that very address', async (t) => {
  const ann = { sub: 's', email: 'Ann@b.test' }
  const emailOf = (token: object, userinfo: object = {}, vouches = false) => {
    const { email, emails } = profileOfClaims(token as Json, userinfo as Json, vouches)
    t.same(emails, email === '' ? [] : [email.toLowerCase()])
    return email
  }
  for (const claim of [true, 'true']) t.equal(emailOf({ ...ann, email_verified: claim }), 'Ann@b.test')
  for (const claim of [false, 'false', 'yes', '', 0, 1, {}]) {
    t.equal(emailOf({ ...ann, email_verified: claim }), '', JSON.stringify(claim))
    t.equal(
      emailOf({ ...ann, email_verified: claim }, {}, true),
      '',
      `${JSON.stringify(claim)}, and no assumption helps`
    )
  }
  for (const absent of [{}, { email_verified: null }]) {
    t.equal(emailOf({ ...ann, ...absent }), '', 'a missing claim')
    t.equal(emailOf({ ...ann, ...absent }, {}, true), 'Ann@b.test', 'a missing claim of a provider that vouches')
  }
  const stranger = { email: 'ceo@victim.test' }
  t.equal(emailOf({ ...ann, email_verified: true }, stranger), '', 'the word of the token is about its own address')
  t.equal(emailOf({ ...ann, email_verified: true }, { ...stranger, email_verified: false }), '')
  t.equal(emailOf({ ...ann, email_verified: true }, { sub: 's' }), 'Ann@b.test')
  t.equal(emailOf({ ...ann, email_verified: true }, { email: 'Ann@b.test' }), 'Ann@b.test')
  t.equal(emailOf({ sub: 's', email_verified: true }, stranger), '')
  for (const email of ['', 'a', '@b', 'a@', 7, null]) t.equal(emailOf({ sub: 's', email, email_verified: true }), '')
  t.match(profileOfClaims({ sub: 's', preferred_username: 'ann' }, {}, false), { name: 'ann', email: '', emails: [] })
  const providers = await readOperatorProviders(
    'gitlab: {assume_email_verified: true}\ntwitch: {assume_email_verified: false}'
  )
  const vouching = (all: typeof providers) => PROVIDER_NAMES.filter((name) => all[name].provider.vouches)
  t.same(vouching(providers), ['amazon', 'facebook', 'gitlab'])
  t.same(vouching(defaultProviders()), ['amazon', 'facebook', 'twitch'])
})

t.test('token answers of other forms become those of the standard', async (t) => {
  const normal = async (status: number, body: string) => {
    const answer = await normalTokenAnswer(new Response(body, { status }))
    return [answer.status, await answer.text()] as const
  }
  t.same(await normal(200, '{"access_token":"a","scope":["x","y"]}'), [
    200,
    '{"access_token":"a","token_type":"bearer","scope":"x y"}'
  ])
  t.same(await normal(200, '{"error":"bad_verification_code"}'), [400, '{"error":"bad_verification_code"}'])
  t.same(await normal(400, '{"error":{"message":"m","code":190}}'), [400, '{"error":"invalid_request"}'])
  t.same(await normal(200, 'access_token=a'), [200, 'access_token=a'])
})

t.test('claims of an identity token keep the digits of whole numbers beyond 2^53', (t) => {
  const payload = '{"sub":"u1","preferred_username":1234567890123456789,"exp":1767225600}'
  const claims = claimsIn(`e30.${Buffer.from(payload).toString('base64url')}.x`)
  t.same(claims, { sub: 'u1', preferred_username: 1234567890123456789n, exp: 1767225600 })
  t.equal(profileOfClaims(claims ?? {}, {}, false).name, '1234567890123456789')
  t.end()
})

t.test("the operator's file: addresses and applications; mistakes are named without values", async (t) => {
  const read = await readOperatorProviders(
    'github: {client_id: a, client_secret: b, authorization_url: "https://github.example.com/login/oauth/authorize", api_url: "https://github.example.com/api/v3/"}\ngitlab: {issuer: "https://git.example.com"}'
  )
  t.match(read.github, {
    application: { id: 'a', secret: 'b' },
    provider: { issuer: 'https://github.example.com/login/oauth', api: 'https://github.example.com/api/v3' }
  })
  t.match(read.gitlab, { application: undefined, provider: { issuer: 'https://git.example.com' } })
  t.equal(read.google.provider, PROVIDERS.google)
  t.same(await readOperatorProviders(''), defaultProviders())
  for (const text of [
    '[]',
    'x: {}',
    'github: {client_id: hush}',
    'github: {client_secret: hush}',
    'github: {client_id: a, client_secret: 17}',
    'github: {client_id: a, client_secret: hush, more: hush}',
    'github: {issuer: "https://hush.test"}',
    'google: {token_url: "https://hush.test"}',
    'gitlab: {issuer: "ftp://hush.test"}',
    'github: {assume_email_verified: true}',
    'google: {assume_email_verified: hush}',
    'twitch: {authorization_url: "https://hush test:x/"}',
    'gitlab: {issuer: "https://hush.test/?a"}',
    'github: {client_secret: "hush'
  ]) {
    try {
      await readOperatorProviders(text)
      t.fail(text)
    } catch (error) {
      t.equal(codeOf(error), 'LOGIN_PROVIDERS_INVALID', text)
      const { message, cause } = error as Error
      t.notMatch(`${message} ${String(cause)}`, /hush/)
      t.match(message, /^login\.providers: ./)
    }
  }
})
