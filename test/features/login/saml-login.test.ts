import { randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { readSaml } from '../../../src/features/login/saml/reading.js'
import type { SamlReader } from '../../../src/features/login/saml/service-provider.js'
import { TOO_SLOW } from '../../../src/lib/thread-pool.js'
import { opened } from '../../store/opened.js'
import { type Answer, Browser, type Send } from './browser.js'
import { type Said, SamlIdp } from './saml-provider.js'
import { LoginStand, moduleStep } from './stand.js'

const HOST = 'app.example.com'
const SITE = `https://${HOST}`
const ENTITY = `${SITE}/.sluice/saml/route-1`
const FORM = { 'content-type': 'application/x-www-form-urlencoded', accept: 'text/html' }

const idp = await SamlIdp.make()

interface Setup {
  readonly config?: Readonly<Record<string, unknown>>
  readonly secrets?: Readonly<Record<string, string>>
  readonly said?: Partial<Said>
  readonly readSaml?: SamlReader
}

const CONFIG = {
  idp_metadata: idp.metadata(),
  idp_metadata_url: '',
  options_passthrough: false,
  cookie_prefix: '',
  inactivity_timeout: 0,
  maximum_duration: 3600,
  force_authn: false,
  allow_idp_initiated: false,
  authorized_groups: [],
  nameid_format: 'urn:oasis:names:tc:SAML:2.0:nameid-format:persistent',
  request_signing_certificate_pem: ''
}

/** A route with the module, and browsers that reach it and the identity provider. */
async function stage(t: Test, { config = {}, secrets = {}, said = {}, readSaml: reader = readSaml }: Setup = {}) {
  const { store } = await opened(t, ':memory:')
  const keys = [randomBytes(32)]
  const start = async () => {
    const made = moduleStep('saml', { ...CONFIG, ...config }, secrets)
    const stand = new LoginStand(t, made, { keys, store: store.loginSessions, readSaml: reader })
    await stand.login.ended.attach(store.endedSessions)
    return stand
  }
  const stand = await start()
  const sent: { readonly url: URL; readonly request: { readonly id: string } }[] = []
  const metadata = async () => (await stand.send('GET', new URL(ENTITY), {}, '')).body
  const says: { -readonly [K in keyof Said]?: Said[K] } = { ...said }
  const login: Send = async (_method, url) => {
    const now = stand.clock.wall()
    const { request, consumer, SAMLResponse, RelayState } = await idp.answers(url.href, await metadata(), {
      now,
      ...says
    })
    sent.push({ url, request })
    const body = `<form method="post" action="${consumer}"><input type="hidden" name="SAMLResponse" value="${SAMLResponse}"><input type="hidden" name="RelayState" value="${RelayState}"></form>`
    return { status: 200, headers: {}, body }
  }
  const browser = () =>
    new Browser((method, url, headers, body) =>
      (url.hostname === HOST ? stand.send : login)(method, url, headers, body)
    )
  /** From a page of the site to the form of the identity provider. */
  const begin = async (one: Browser, path = '/'): Promise<Answer & { readonly url: string }> =>
    one.visit(`${SITE}${path}`)
  const post = (one: Browser, response: string, state = '') =>
    one.visit(`${ENTITY}/acs`, {
      method: 'POST',
      from: 'https://idp.example.com/',
      headers: FORM,
      body: new URLSearchParams({ SAMLResponse: response, ...(state === '' ? {} : { RelayState: state }) }).toString()
    })
  return { stand, start, browser, begin, post, sent, says, metadata, store }
}

const codeOf = ({ status, headers }: Answer) => `${status} ${headers['sluice-error-code'] ?? ''}`.trim()
const fieldIn = (page: Answer, name: string) => new RegExp(`name="${name}" value="([^"]*)"`).exec(page.body)?.[1] ?? ''

t.test('a visitor logs in and lands where the visit began, with the results published', async (t) => {
  const said = {
    attributes: { groups: ['staff'], mail: ['Ann@example.com'], displayName: ['Ann'] },
    session: 1_800_000
  }
  const { stand, browser, begin, sent } = await stage(t, { said })
  const ann = browser()
  const form = await begin(ann, '/deep/page?a=1&b=%2F')
  t.match(
    [...ann.cookies(HOST)],
    [[/^__Host-nonce\.sl/, { attributes: ['Path=/', 'HttpOnly', 'SameSite=None', 'Secure', 'Max-Age=600'] }]]
  )
  t.equal(sent[0]?.url.searchParams.get('tenant'), '1', 'the query of the place for logins stays')
  t.ok((sent[0]?.url.searchParams.get('RelayState') ?? '').length <= 80)
  const page = await ann.submit(form, {})
  t.equal(page.status, 200, page.body)
  t.equal(page.url, `${SITE}/deep/page?a=1&b=%2F`)
  t.match(
    [...ann.cookies(HOST)],
    [[/^__Host-session\.sl/, { attributes: ['Path=/', 'HttpOnly', 'SameSite=Lax', 'Secure', /Max-Age=1800/] }]]
  )
  const [arrived] = stand.arrived
  t.same(arrived?.cookie, [], 'the upstream sees no cookie of ours')
  t.match(arrived?.results?.get('saml'), {
    'identity.id': `${idp.entityId}#u1`,
    'identity.email': 'Ann@example.com',
    'identity.name': 'Ann',
    'identity.groups': ['staff'],
    'identity.provider_user_id': 'u1',
    attributes: { groups: ['staff'] },
    'error.code': ''
  })
  stand.clock.advance(1_800_000)
  t.equal((await ann.once(`${SITE}/`)).status, 302, 'the session ends with that of the identity provider')
})

t.test('over plain HTTP too', async (t) => {
  const { stand } = await stage(t)
  const answer = await stand.send('GET', new URL('http://app.example.com/'), { accept: 'text/html' }, '')
  t.equal(answer.status, 302)
  t.match(answer.headers['set-cookie'], [/^nonce\.sl[^;]*; Path=\/; HttpOnly; Max-Age=600$/])
})

t.test('only members of the groups pass', async (t) => {
  for (const [groups, expected] of [
    [['staff'], '200'],
    [['Staff'], '403 LOGIN_NOT_ALLOWED'],
    [[], '403 LOGIN_NOT_ALLOWED']
  ] as const) {
    const { browser, begin } = await stage(t, {
      config: { authorized_groups: ['staff', 'admins'] },
      said: { attributes: { memberOf: groups } }
    })
    const ann = browser()
    t.equal(codeOf(await ann.submit(await begin(ann), {})), expected)
  }
})

t.test('a response counts once, in one browser, for its request', async (t) => {
  const { stand, start, browser, begin, post } = await stage(t)
  const [ann, eve] = [browser(), browser()]
  const form = await begin(ann)
  const [response, state] = [fieldIn(form, 'SAMLResponse'), fieldIn(form, 'RelayState')]
  const before = new Map(ann.cookies(HOST))
  const elsewhere = await eve.once(`${ENTITY}/acs`, {
    method: 'POST',
    headers: FORM,
    body: new URLSearchParams({ SAMLResponse: response, RelayState: state }).toString()
  })
  t.equal(elsewhere.status, 302, 'another browser begins its own login')
  t.match(elsewhere.headers.location, /^https:\/\/idp\.example\.com\/sso/)
  t.equal((await post(ann, response, state)).status, 200)
  for (const [name, cookie] of before) ann.cookies(HOST).set(name, cookie)
  t.equal(codeOf(await post(ann, response, state)), '502 LOGIN_PROVIDER_FAILED', 'the same browser, the same response')
  const other = await start()
  const list = [...before].map(([name, { value }]) => `${name}=${value}`).join('; ')
  const body = new URLSearchParams({ SAMLResponse: response, RelayState: state }).toString()
  t.equal(
    codeOf(await other.send('POST', new URL(`${ENTITY}/acs`), { ...FORM, cookie: list }, body)),
    '502 LOGIN_PROVIDER_FAILED',
    'another process'
  )
  const next = await begin(eve)
  t.equal(
    codeOf(await post(eve, response, fieldIn(next, 'RelayState'))),
    '502 LOGIN_PROVIDER_FAILED',
    'another request'
  )
  t.match(stand.kit.logged, [/used before/, /not the answer/])
})

t.test('a login that the identity provider begins', async (t) => {
  const make = (now: number, more: Partial<Said> = {}) =>
    Buffer.from(idp.signed(idp.response({ entityId: ENTITY, consumer: `${ENTITY}/acs`, now, ...more }))).toString(
      'base64'
    )
  const { stand, browser, post, begin } = await stage(t)
  t.match((await post(browser(), make(stand.clock.wall()))).url, /idp\.example\.com/, 'refused: a login begins')
  const asked = browser()
  const form = await begin(asked)
  t.equal(
    codeOf(await post(asked, make(stand.clock.wall()), fieldIn(form, 'RelayState'))),
    '502 LOGIN_PROVIDER_FAILED',
    'no answer to a request'
  )
  const open = await stage(t, { config: { allow_idp_initiated: true } })
  const now = open.stand.clock.wall()
  for (const [relay, path] of [
    ['/reports?x=1', '/reports?x=1'],
    [`${SITE}/reports`, '/reports'],
    ['https://evil.example.com/', '/'],
    ['//evil.example.com/', '/'],
    ['', '/']
  ] as const) {
    const page = await open.post(open.browser(), make(now), relay)
    t.same([page.status, page.url], [200, `${SITE}${path}`], relay)
  }
  const once = make(now)
  t.equal((await open.post(open.browser(), once)).status, 200)
  t.equal(codeOf(await open.post(open.browser(), once)), '502 LOGIN_PROVIDER_FAILED', 'a second time')
  t.equal(
    codeOf(await open.post(open.browser(), make(now, { request: '_r' }))),
    '502 LOGIN_PROVIDER_FAILED',
    'the answer to a request that nobody made'
  )
})

t.test('what else ends a login', async (t) => {
  const { stand, browser, begin, post, says } = await stage(t)
  const expect = async (expected: string, response?: (form: Answer) => string) => {
    const ann = browser()
    const form = await begin(ann)
    const answer = await post(ann, response?.(form) ?? fieldIn(form, 'SAMLResponse'), fieldIn(form, 'RelayState'))
    t.equal(codeOf(answer), expected)
    t.match(answer.body, /<h1>/, 'a page for people')
  }
  await expect('502 LOGIN_PROVIDER_FAILED', () => '')
  await expect('502 LOGIN_PROVIDER_FAILED', () => 'not base64!')
  await expect('502 LOGIN_PROVIDER_FAILED', () => Buffer.from([0x3c, 0xff, 0xfe]).toString('base64'))
  await expect('502 LOGIN_PROVIDER_FAILED', () => 'A'.repeat(360_000))
  says.status = 'Responder'
  await expect('403 LOGIN_DENIED')
  t.equal(stand.arrived.length, 0)
})

t.test('requests are signed, and the login is forced, where that is set', async (t) => {
  const { browser, begin, sent, metadata } = await stage(t, {
    config: { force_authn: true, request_signing_certificate_pem: idp.keys.pem },
    secrets: { request_signing_key_pem: idp.keys.key }
  })
  t.match(
    await metadata(),
    new RegExp(`AuthnRequestsSigned="true".*<X509Certificate>${idp.certificate.replace(/[+]/g, '\\+')}<`, 's')
  )
  await begin(browser())
  t.match(sent[0]?.url.search, /SAMLRequest=.*&RelayState=.*&SigAlg=.*rsa-sha256&Signature=./)
  const wants = idp.metadata().replace('<md:IDPSSODescriptor ', '<md:IDPSSODescriptor WantAuthnRequestsSigned="true" ')
  const without = await stage(t, { config: { idp_metadata: wants } })
  t.equal(codeOf(await without.browser().once(`${SITE}/`)), '502 LOGIN_PROVIDER_FAILED')
})

t.test('the metadata of the service provider', async (t) => {
  const { stand, metadata } = await stage(t)
  const answer = await stand.send('GET', new URL(ENTITY), {}, '')
  t.equal(answer.headers['content-type'], 'application/samlmetadata+xml; charset=utf-8')
  t.match(await metadata(), `entityID="${ENTITY}"`)
  t.match(await metadata(), `Location="${ENTITY}/acs"`)
  t.equal(
    (await stand.send('GET', new URL(`${SITE}/.sluice/saml/route-2`), { accept: 'a/b' }, '')).status,
    401,
    'of another route'
  )
})

t.test('a thread that fails or takes too long ends the login alone', async (t) => {
  for (const fails of [async () => TOO_SLOW, async () => Promise.reject(new Error('out of memory'))] as SamlReader[]) {
    let isBroken = false
    const { browser, begin, post } = await stage(t, { readSaml: (job) => (isBroken ? fails(job) : readSaml(job)) })
    const ann = browser()
    const form = await begin(ann)
    isBroken = true
    t.equal(
      codeOf(await post(ann, fieldIn(form, 'SAMLResponse'), fieldIn(form, 'RelayState'))),
      '502 LOGIN_PROVIDER_FAILED'
    )
    isBroken = false
    t.equal((await ann.submit(await begin(ann), {})).status, 200, 'and the next one works')
  }
})
