import { appendFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { HashChecker, type HashJob, hashChecker } from '../../src/features/basic-auth/hash-checker.js'
import { hashPassword, verifyPassword } from '../../src/lib/password-hash.js'
import { readPasswordHash } from '../../src/lib/password-hash-format.js'
import { provide } from '../../src/policy/services.js'
import { makeFlow } from '../helpers/flow.js'
import { headersOf, Kit, outcomeOf } from './kit.js'

const BCRYPT = '$2y$05$0Qdn8.pzwAtTpP0awUWb.OaxWxa/fN0VdPjBUhum8JNeyMRxMlrHW'
const APR1 = '$apr1$TbhmhFSN$ZrslgvTaA4X2r5s2IE.jI1'
const ARGON2 = '$argon2id$v=19$m=64,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$5jdMIzWoFbzSOl6k3wai9uU3f8LD+HmGXQgo1uhHQPI'

/** Jobs that the checker was given; they are done in this thread, when the test lets them. */
class Jobs {
  readonly asked: HashJob[] = []
  held: Promise<unknown> = Promise.resolve()
  async run(job: HashJob): Promise<boolean> {
    this.asked.push(job)
    await this.held
    return await verifyPassword(job.password, job.hash)
  }
}

const jobs = new Jobs()
const kit = new Kit('none', { more: [provide(hashChecker, new HashChecker(jobs))] })

function presenting(pair: string | Buffer, scheme = 'Basic') {
  const secret = (vault: string, name: string) =>
    vault === 'vault' && name === 'password' ? 'correct horse' : undefined
  return makeFlow({
    headers: ['Authorization', `${scheme} ${Buffer.from(pair).toString('base64')}`],
    units: { secret }
  })
}

function published(flow: ReturnType<typeof makeFlow>) {
  const field = (name: string) => kit.read(`actions.service.basic_auth.credentials.${name}`, flow)
  return { presented: field('presented'), username: field('username'), authorized: field('authorized') }
}

t.test('each accepted credential passes, in both notations', async (t) => {
  const run = kit.action('basic-auth', {
    credentials: ['alice:password1', { username: 'bob', password: 'pass:word2' }, 'carol:pass:with:colons']
  })
  for (const pair of ['alice:password1', 'bob:pass:word2', 'carol:pass:with:colons']) {
    const flow = presenting(pair)
    t.equal(run(flow), undefined, pair)
    t.same(published(flow), { presented: true, username: pair.split(':')[0], authorized: true })
  }
  t.equal(run(presenting('alice:password1', 'bAsIc')), undefined, 'the scheme has no case')
})

t.test('everything else gets 401 with a challenge', async (t) => {
  const run = kit.action('basic-auth', { credentials: ['alice:password1'], realm: 'my "realm" \\' })
  const wrong: readonly (readonly [string, ReturnType<typeof makeFlow>])[] = [
    ['no header', makeFlow()],
    ['wrong password', presenting('alice:password2')],
    ['longer password', presenting('alice:password11')],
    ['shorter password', presenting('alice:password')],
    ['other user', presenting('alicE:password1')],
    ['no colon', presenting('alicepassword1')],
    ['other scheme', presenting('alice:password1', 'Bearer')],
    ['no base64', makeFlow({ headers: ['Authorization', 'Basic a:b'] })],
    ['empty', makeFlow({ headers: ['Authorization', 'Basic '] })],
    [
      'two headers',
      makeFlow({
        headers: [
          'Authorization',
          presenting('alice:password1').request?.headers.get('authorization') ?? '',
          'authorization',
          'x'
        ]
      })
    ]
  ]
  for (const [name, flow] of wrong) {
    const verdict = run(flow)
    t.equal(outcomeOf(verdict), '401 BASIC_AUTH', name)
    t.same(headersOf(verdict), { 'www-authenticate': 'Basic realm="my \\"realm\\" \\\\", charset="UTF-8"' }, name)
    t.equal(published(flow).authorized, false, name)
  }
})

t.test('bytes are compared, so invalid UTF-8 equals only itself', async (t) => {
  const run = kit.action('basic-auth', { credentials: ['alice:pass\ufffdword'] })
  t.equal(run(presenting('alice:pass\ufffdword')), undefined)
  const bytes = Buffer.concat([Buffer.from('alice:pass'), Buffer.from([0xff]), Buffer.from('word')])
  t.equal(outcomeOf(run(presenting(bytes))), '401 BASIC_AUTH')
})

t.test('without enforcement the exchange goes on and the outcome is told', async (t) => {
  const run = kit.action('basic-auth', { credentials: ['alice:password1'], enforce: false })
  const flow = presenting('mallory:guess')
  t.equal(run(flow), undefined)
  t.same(published(flow), { presented: true, username: 'mallory', authorized: false })
  const nobody = makeFlow()
  t.equal(run(nobody), undefined)
  t.same(published(nobody), { presented: false, username: '', authorized: false })
})

t.test('expressions give the whole credential or a half', async (t) => {
  for (const credential of [
    "alice:${secrets.get('vault', 'password')}",
    "${'ali' + 'ce'}:${secrets.get('vault', 'password')}",
    "${'alice:' + secrets.get('vault', 'password')}",
    "al${'{i}'.substring(1, 2)}ce:correct ${'horse'}"
  ]) {
    const run = kit.action('basic-auth', { credentials: [credential] })
    t.equal(run(presenting('alice:correct horse')), undefined, credential)
    t.equal(outcomeOf(run(presenting('alice:correct house'))), '401 BASIC_AUTH', credential)
  }
})

t.test('a half that brings a colon, or a secret that is missing or short, fails closed', async (t) => {
  const withUser = kit.action('basic-auth', { credentials: ["${getReqHeader('x-user')[0]}:known-password"] })
  const flow = presenting('a:b:known-password')
  flow.request?.headers.append('x-user', 'a:b')
  t.equal(outcomeOf(withUser(flow)), '500 POLICY_EXPRESSION')
  for (const credential of ["alice:${secrets.get('vault', 'nothing')}", "alice:${'short'}", "${'no colon here'}"]) {
    const run = kit.action('basic-auth', { credentials: [credential] })
    t.equal(outcomeOf(run(presenting('alice:whatever1'))), '500 POLICY_EXPRESSION', credential)
  }
  t.notMatch(kit.logged.join('\n'), /known-password|correct horse|whatever1/)
})

t.test('credentials and realm have bounds, and no problem repeats a secret', async (t) => {
  const canary = 'cAnArY7'
  const wrong: readonly unknown[] = [
    { credentials: [] },
    { credentials: Array.from({ length: 1_001 }, (_, i) => `u${i}:${canary}-long`) },
    { credentials: [`alice:$6$${canary}$${canary}`] },
    { credentials: [`alice:{SHA}${canary}=`] },
    { credentials: [`alice:$$apr1$$${canary}$$${canary}`] },
    { credentials: [{ username: 'alice', password: '$apr1$abcdefgh$sIQmFnT1CuEXAsyjuXjUX/' }] },
    { credentials: [{ username: 'alice', password_hash: `${canary}-long` }] },
    { credentials: [{ username: 'alice', password_hash: BCRYPT, password: `${canary}-long` }] },
    { credentials: [{ username: 'alice', password_hash: BCRYPT.replace('$05$', '$15$') }] },
    {
      credentials: [
        { username: 'alice', password_hash: `$argon2id$v=19$m=1000000,t=1,p=1$c2FsdHNhbHQ$${'a'.repeat(43)}` }
      ]
    },
    { file: 'relative/htpasswd' },
    { credentials: [`alice:${canary}`] },
    { credentials: [`alice:${canary.repeat(20)}`] },
    { credentials: [canary.repeat(2)] },
    { credentials: [`:${canary}-long`] },
    { credentials: [`\${req.method}${canary}`] },
    { credentials: [{ username: 'a:b', password: `${canary}-long` }] },
    { credentials: [{ username: 'alice', password: canary }] },
    { credentials: [{ username: 'alice' }] },
    { credentials: [`alice:${canary}-long`], realm: 'é' },
    { credentials: [`alice:${canary}-long`], realm: 'r'.repeat(129) },
    { credentials: [`alice:${canary}-long`], extra: 1 },
    {}
  ]
  for (const config of wrong) {
    const problems = kit.problems('basic-auth', config)
    t.match(problems, [/^error CONFIG_INVALID/], JSON.stringify(config).slice(0, 200) + problems.join())
    t.notMatch(problems.join(), new RegExp(canary))
  }
  t.same(
    kit.problems('basic-auth', { credentials: [`alice:${'p'.repeat(8)}`, `bob:${'p'.repeat(128)}`], realm: '' }),
    []
  )
})

t.test('hashes of htpasswd and of Argon2 are taken in every notation', async (t) => {
  const run = kit.waiting([
    [
      'basic-auth',
      {
        credentials: [
          `alice:${BCRYPT}`,
          { username: 'bob', password_hash: APR1 },
          { username: 'carol', password_hash: ARGON2 },
          `dave:\${'${APR1}'}`,
          'erin:plain-password'
        ]
      }
    ]
  ])
  for (const user of ['alice', 'bob', 'carol', 'dave']) {
    const flow = presenting(`${user}:correct horse`)
    t.equal(await run(flow), undefined, user)
    t.same(published(flow), { presented: true, username: user, authorized: true })
    for (const wrong of ['correct horsf', 'correct hors', '', 'x'.repeat(200)])
      t.equal(outcomeOf(await run(presenting(`${user}:${wrong}`))), '401 BASIC_AUTH', `${user} ${wrong}`)
  }
  t.equal(await run(presenting('erin:plain-password')), undefined)
  t.equal(outcomeOf(await run(presenting('erin:plain-passwore'))), '401 BASIC_AUTH')
  t.equal(outcomeOf(await run(makeFlow())), '401 BASIC_AUTH')
})

t.test('a right password is checked once, a wrong one and that of nobody each time', async (t) => {
  const own = new Jobs()
  const fresh = new Kit('none', { more: [provide(hashChecker, new HashChecker(own))] })
  const run = fresh.waiting([['basic-auth', { credentials: [`zoe:${BCRYPT}`, `yan:${ARGON2}`] }]])
  const checked = async (pair: string, times: number) => {
    const before = own.asked.length
    await Promise.all([run(presenting(pair)), run(presenting(pair))])
    await run(presenting(pair))
    t.equal(own.asked.length - before, times, pair)
  }
  await checked('yan:correct horse', 1)
  await checked('yan:wrong', 2)
  await checked('nobody:correct', 2)
  await checked('nobody:correct horse', 2)
  t.equal(own.asked.at(-1)?.hash, BCRYPT, 'the hash of another, so that the time says nothing')
  await run(presenting('zoe:correct horse'))
  t.equal(outcomeOf(await run(presenting('nobody:correct horse'))), '401 BASIC_AUTH', 'whose password it is counts')
})

t.test('checks that wait are bounded; what is right already passes meanwhile', async (t) => {
  const run = kit.waiting([['basic-auth', { credentials: [`max:${APR1}`, 'erin:plain-password'] }]])
  t.equal(await run(presenting('max:correct horse')), undefined)
  let release: (value: unknown) => void = () => undefined
  jobs.held = new Promise((resolve) => {
    release = resolve
  })
  const guesses = Array.from({ length: 100 }, (_, i) => run(presenting(`max:guess-${i}`)))
  t.equal(await run(presenting('max:correct horse')), undefined)
  t.equal(await run(presenting('erin:plain-password')), undefined)
  release(undefined)
  const outcomes = (await Promise.all(guesses)).map(outcomeOf)
  t.equal(outcomes.filter((one) => one === '401 BASIC_AUTH').length, 64)
  t.equal(outcomes.filter((one) => one === '503 BASIC_AUTH_BUSY').length, 36)
  t.equal(outcomeOf(await run(presenting('max:guess-99'))), '401 BASIC_AUTH', 'a later one is checked')
})

t.test('a file of htpasswd has more users, and its changes count', async (t) => {
  const lines = Array.from({ length: 50 }, (_, i) => `user${i}:${APR1}`)
  const file = join(t.testdir(), 'users')
  writeFileSync(file, `# staff\n\n${lines.join('\r\n')}\nold:{SHA}qUqP5cyxm6YcTAhz05Hph5gvu9M=\nnothing\n`)
  const warned = kit.problems('basic-auth', { file })
  t.match(warned, [
    /^warning CONFIG_INVALID .*file: line 53: hashes of passwords are bcrypt/,
    /line 54: a line is user:hash/
  ])
  t.notMatch(warned.join(), /qUqP5/)
  const run = kit.waiting([['basic-auth', { file }]])
  t.equal(await run(presenting('user49:correct horse')), undefined)
  t.equal(outcomeOf(await run(presenting('old:test'))), '401 BASIC_AUTH')
  appendFileSync(file, `new:${ARGON2}\n`)
  t.equal(
    outcomeOf(await run(presenting('new:correct horse'))),
    '401 BASIC_AUTH',
    'the file is not read for each request'
  )
  kit.clock.now += 10_000
  await run(presenting('new:correct horse'))
  for (let i = 0; i < 50_000 && (await run(presenting('new:correct horse'))) !== undefined; i++)
    await new Promise((resolve) => setImmediate(resolve))
  t.equal(await run(presenting('new:correct horse')), undefined)
  const missing = kit.problems('basic-auth', { file: join(t.testdir(), 'none') })
  t.match(missing, [
    /^warning CONFIG_INVALID .*file: the file cannot be read now; until it can be, none of its users passes/
  ])
})

t.test('the hash of a password is read by its form, and a new one is right', async (t) => {
  for (const format of ['argon2id', 'bcrypt'] as const) {
    const hash = await hashPassword('pässword', format)
    t.same(readPasswordHash(hash), { kind: 'hash', format })
    t.ok(await verifyPassword(Buffer.from('pässword'), hash))
    t.notOk(await verifyPassword(Buffer.from('passwords'), hash))
  }
  await t.rejects(hashPassword('x'.repeat(73), 'bcrypt'), RangeError)
  // As openssl passwd -apr1 makes them, of lengths around that of a digest.
  t.ok(await verifyPassword(Buffer.from('x'.repeat(16)), '$apr1$abcdefgh$R0E65Eb3vdT903fP0jqAA0'))
  t.ok(await verifyPassword(Buffer.from('pw'.repeat(25)), '$apr1$ab$PDJDuGFxMA4ktUaHgbNLs1'))
  for (const text of ['password1', '$100-is-a-lot', '{not a hash}', '2y$05$abc', ''])
    t.equal(readPasswordHash(text).kind, 'none', text)
  for (const text of [
    '$1$a$b',
    '$5$a$b',
    '$y$j9T$a$b',
    '{SSHA}abc',
    'pbkdf2:sha256:1000$a$b',
    'pbkdf2_sha256$1000$a$b',
    'scrypt:32768:8:1$a$b',
    'bcrypt_sha256$$2b$12$a',
    '$argon2i$v=19$m=64,t=2,p=1$a$b',
    '$2y$05$short'
  ])
    t.equal(readPasswordHash(text).kind, 'refused', text)
})
