import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import {
  connectionsOf,
  endWithout,
  exitOf,
  KEY,
  overTls,
  POLICY,
  Stand,
  statusOf,
  upgraded
} from './take-over-stand.js'

t.test(
  'a new process takes the place of the one that runs: no request is lost, limits and tickets go on',
  async (t) => {
    const stand = await Stand.open(t)
    const { traffic, tls } = stand.ports
    const old = stand.start()
    await old.logged('listening')
    await stand.certify()
    const { session } = await overTls(tls)
    for (let i = 0; i < 3; i++) t.equal(await statusOf(traffic, '/limited'), 200)
    const socket = await upgraded(traffic)
    t.match(socket.head, /^HTTP\/1.1 101/)
    const loops = stand.looping()
    const { asking, pid } = await stand.takeOver()
    await asking.told('serves; the old one exits')
    const [held, also] = await Promise.all([old.child.pid, pid].map((one) => connectionsOf(one, socket.port)))
    t.same([held, also], [1, 0], 'the new process holds no connection of the one before: clients would not see its end')
    t.equal(await socket.echo('still here'), 'still here')
    t.same([200, 200, 429], [await stand.limited(), await stand.limited(), await stand.limited()])
    t.ok((await overTls(tls, session)).resumed, 'a ticket of the process before')
    t.ok(await stand.apiAnswers())
    t.equal(await exitOf(old), 0)
    await socket.closed
    await endWithout(t, loops)
    asking.child.kill('SIGTERM')
    t.equal((await asking.ended()).code, 0, 'the command ends with the code of the process that it has started')
  }
)

t.test('a configuration that is wrong changes nothing', async (t) => {
  const stand = await Stand.open(t)
  const old = stand.start()
  await old.logged('listening')
  const loops = stand.looping()
  await writeFile(join(stand.folder, 'wrong.yaml'), 'on_http_request: [{ actions: [{ type: nonsense }] }]')
  const asking = stand.start('--take-over', '--policy', join(stand.folder, 'wrong.yaml'))
  const { code, err } = await asking.ended()
  t.equal(code, 1)
  t.match(err, /nonsense/)
  t.match(err, /error: nothing was taken over: .*; the old process keeps running, nothing has changed/)
  t.ok(await stand.apiAnswers())
  // A start over a copy of the store goes before all else.
  const unusable = { SLUICE_GEOIP_DATABASE: join(stand.folder, 'wrong.yaml') }
  const wrong = await stand.startWith(unusable, '--take-over').ended()
  t.equal(wrong.code, 1)
  t.match(wrong.err, /wrong\.yaml/)
  t.notMatch(wrong.err, /handing over/)
  t.same(
    (await readdir(join(stand.folder, 'data'))).filter((name) => /^take-over\.(?!sock)/.test(name)),
    []
  )
  const again = await stand.takeOver()
  await again.asking.told('serves')
  t.equal(await exitOf(old), 0)
  await endWithout(t, loops)
})

t.test(
  'a new process that is killed before it serves: the old process keeps running entirely, and can be replaced',
  async (t) => {
    const stand = await Stand.open(t)
    const old = stand.start()
    await old.logged('listening')
    const loops = stand.looping()
    for (let i = 0; i < 3; i++) t.equal(await statusOf(stand.ports.traffic, '/limited'), 200)
    for (const at of ['reads its options', 'handing over']) {
      const { asking, pid } = await stand.takeOver()
      await asking.told(at)
      process.kill(pid, 'SIGKILL')
      const made = stand.ask('/vaults', { key: KEY, method: 'POST', body: { name: at.replaceAll(' ', '-') } })
      const { code, err } = await asking.ended()
      t.equal(code, 1)
      t.match(err, /the old process keeps running, nothing has changed/)
      t.equal((await made).status, 201, 'a write that came meanwhile is done by the one that ran')
      t.equal(old.child.exitCode, null)
    }
    await old.logged('take-over cancelled: this process resumed ownership of store and API')
    await writeFile(join(stand.folder, 'policy.yaml'), POLICY.replace('/limited', '/other'))
    await old.logged('reloaded"')
    await writeFile(join(stand.folder, 'policy.yaml'), POLICY)
    await old.logged('reloaded"', 2)
    const { asking } = await stand.takeOver()
    await asking.told('serves; the old one exits')
    t.same([200, 200, 429], [await stand.limited(), await stand.limited(), await stand.limited()])
    t.equal(await exitOf(old), 0)
    await endWithout(t, loops)
    asking.child.kill('SIGTERM')
    t.equal((await asking.ended()).code, 0)
  }
)
