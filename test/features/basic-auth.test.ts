import t from 'tap'
import { makeFlow } from '../helpers/flow.js'
import { headersOf, Kit, outcomeOf } from './kit.js'

const kit = new Kit()

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
    { credentials: Array.from({ length: 11 }, (_, i) => `u${i}:${canary}-long`) },
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
    t.match(problems, [/^error CONFIG_INVALID/], problems.join())
    t.notMatch(problems.join(), new RegExp(canary))
  }
  t.same(
    kit.problems('basic-auth', { credentials: [`alice:${'p'.repeat(8)}`, `bob:${'p'.repeat(128)}`], realm: '' }),
    []
  )
})
