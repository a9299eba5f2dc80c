import { join } from 'node:path'
import t from 'tap'
import { random as seeded, whole } from '../features/rate-limit/limiter/support/random.js'
import { type Account, DENY, open } from './account.js'

const seed = Number(process.env.TEST_SEED ?? 20_261_122)
const HOST = 'app.example.com'

t.test('a match is kept, claimed and compared in the normal form of paths', async (t) => {
  const account = await open(t)
  const { edge } = await account.site(HOST)
  await account.update('https_edge', { id: edge }, { path_form: 'lenient' })
  const kept = async (match: string, match_type = 'path_prefix') =>
    (await account.create('https_edge_route', { match, match_type }, { edge_id: edge })).answer.match
  const forms: [match: string, normal: string][] = [
    ['/\u00fc', '/%C3%BC'],
    ['/sp ace', '/sp%20ace'],
    ['/%7Eu', '/~u'],
    ['/low%2fx', '/low%2Fx'],
    ['/a/../b', '/b'],
    ['//twice///x', '/twice/x'],
    ['/slash/', '/slash'],
    ['/star/*', '/star'],
    ['/stars/**', '/stars']
  ]
  for (const [match, normal] of forms) {
    t.equal(await kept(match), normal, match)
    t.equal(account.holder.current().route(HOST, `${normal}/below`)?.path, normal)
    await t.rejects(kept(match), { code: 'ALREADY_EXISTS' }, `${match} again`)
    await t.rejects(kept(`${normal}/`), { code: 'ALREADY_EXISTS' }, `${normal}/ beside it`)
  }
  t.equal(await kept('/slash/', 'exact_path'), '/slash/', 'two paths, compared as a whole')
  t.equal(await kept('/slash', 'exact_path'), '/slash')
  for (const match of [
    '/q?x',
    '/zz%',
    '/%zz',
    '/f#g',
    'a',
    '',
    '/a/*/b',
    '/a*',
    '/a/*.png',
    '/a/***',
    '*',
    '/u/{id}',
    '/u/{id:[0-9]+}',
    '/<path:p>',
    '/u/:id',
    '/:a/b',
    '/(en|de)/',
    '/{%ff}'
  ]) {
    await t.rejects(kept(match), { code: 'FIELD_INVALID' }, JSON.stringify(match))
  }
  await t.rejects(kept('/*'), { code: 'ALREADY_EXISTS' }, 'every path, as the route / of the site has them')
  await t.rejects(kept('/whole/*', 'exact_path'), { code: 'FIELD_INVALID', message: /match_type path_prefix/ })
  await t.rejects(kept('/a/*/b'), { message: /write "\/a\/"/ })
  await t.rejects(kept('/u/{id}/x'), { message: /has \{id\}, which would be literal text; write "\/u\/"/ })
  const exact = await account.create(
    'https_edge_route',
    { match: '/last/', match_type: 'exact_path' },
    { edge_id: edge }
  )
  const path = { id: exact.id, edge_id: edge }
  t.match((await account.update('https_edge_route', path, { match_type: 'path_prefix' })).answer, { match: '/last' })
})

t.test('a route beside another one takes nothing from it', async (t) => {
  const account = await open(t)
  const { edge } = await account.site(HOST)
  const guarded = { match: '/admin', traffic_policy: { value: DENY } }
  const { id } = await account.create('https_edge_route', guarded, { edge_id: edge })
  const serving = () => account.holder.current().route(HOST, '/admin/x')?.id
  await t.rejects(account.create('https_edge_route', { match: '/admin/' }, { edge_id: edge }), {
    code: 'ALREADY_EXISTS'
  })
  t.equal(serving(), id)
  const exact = await account.create(
    'https_edge_route',
    { match: '/admin/', match_type: 'exact_path' },
    { edge_id: edge }
  )
  await account.remove('https_edge_route', { id: exact.id, edge_id: edge })
  t.equal(serving(), id)
})

t.test(`after random writes the tables equal those of a fresh start (TEST_SEED=${seed})`, async (t) => {
  const random = seeded(seed)
  const at = join(t.testdir(), 'store.db')
  const account = await open(t, { at })
  const pick = <T>(list: readonly T[]): T => list[whole(random, 0, list.length - 1)] as T
  const hosts = ['a.w.test', '*.w.test', 'b.test']
  const matches = ['/', '/a', '/a/', '//a', '/a/b', '/a/./b/', '/%61', '/c/../b', '/b']
  const edges: string[] = []
  const routes: { readonly id: string; readonly edge_id: string }[] = []
  let [accepted, refused] = [0, 0]
  for (let step = 0; step < 600; step++) {
    const edge_id = pick(edges) ?? 'edghts_none'
    const route = pick(routes) ?? { id: 'edghtsrt_none', edge_id }
    const hostports = [`${pick(hosts)}:${pick([443, 8443])}`]
    const body = {
      match: pick(matches),
      match_type: pick(['exact_path', 'path_prefix']),
      traffic_policy: pick([null, { value: DENY }])
    }
    const writes: (() => Promise<unknown>)[] = [
      async () => edges.push((await account.create('https_edge', { hostports })).id),
      () => account.update('https_edge', { id: edge_id }, { hostports }),
      () => account.remove('https_edge', { id: edge_id }),
      async () => routes.push({ id: (await account.create('https_edge_route', body, { edge_id })).id, edge_id }),
      () => account.update('https_edge_route', route, body),
      () => account.update('https_edge_route', route, { match_type: body.match_type }),
      () => account.remove('https_edge_route', route)
    ]
    try {
      await pick([...writes, writes[0], writes[3], writes[3], writes[3]])?.()
      accepted++
    } catch (error) {
      if (!(error instanceof Error) || error.name !== 'ControlError') throw error
      refused++
    }
  }
  const expected = found(account)
  await account.control.close()
  t.same(found(await open(t, { at })), expected)
  t.ok(accepted > 100 && refused > 20, `${accepted} accepted, ${refused} refused`)
})

/** What requests find: their route and whether it has modules. */
function found({ holder }: Account): string[] {
  const snapshot = holder.current()
  const answers: string[] = []
  for (const host of ['a.w.test', 'c.w.test', 'b.test']) {
    for (const port of [undefined, 443, 8443]) {
      for (const path of ['/', '/a', '/a/', '/a/x', '/a/b', '/a/b/', '/a/b/c', '/b', '/b/', '/c']) {
        const route = snapshot.route(host, path, port)
        answers.push(`${host}:${port}${path} ${route?.id} ${route?.modules?.length ?? 0}`)
      }
    }
  }
  return answers
}

t.test('a route is refused that no request can reach in the form of paths of its edge', async (t) => {
  const account = await open(t)
  const { edge } = await account.site(HOST)
  const add = (match: string) => account.create('https_edge_route', { match }, { edge_id: edge })
  const form = (path_form: string) => account.update('https_edge', { id: edge }, { path_form })
  for (const strict of ['listener', 'strict']) {
    await form(strict)
    for (const match of ['/low%2fx', '/back%5cslash', '/null%00', '/x/..;/admin']) {
      await t.rejects(add(match), { code: 'FIELD_INVALID', field: 'match' }, `${match} where the form is ${strict}`)
    }
  }
  await form('exact')
  const { id: exact } = await add('/exact%2fx')
  await account.remove('https_edge_route', { id: exact, edge_id: edge })
  await form('lenient')
  const { id } = await add('/low%2fx')
  for (const strict of ['listener', 'strict']) {
    await t.rejects(form(strict), { code: 'FIELD_INVALID', field: 'path_form', message: new RegExp(id) })
  }
  await account.remove('https_edge_route', { id, edge_id: edge })
  await form('strict')
  await add('/low%20x')
})
