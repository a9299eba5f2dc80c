import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { Agent } from 'node:http'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { until } from '../../helpers/until.js'
import { connected, exitOf, Looping, Stand, statusOf } from './take-over-stand.js'

/** Parts into which a take-over is cut. */
const MOMENTS = 9

t.test('the process that ran is killed: the new one serves all the same', async (t) => {
  for (const at of ['reads its options', 'handing over']) {
    const stand = await Stand.open(t)
    const old = stand.start()
    await old.logged('listening')
    const { asking } = await stand.takeOver()
    await asking.told(at)
    old.child.kill('SIGKILL')
    const loops = [new Looping(stand.ports.traffic, new Agent({ keepAlive: false }))]
    await until(() => stand.apiAnswers())
    await until(() => (loops[0] as Looping).well > 20)
    await Promise.all(loops.map((loop) => loop.end()))
    // A connection that the killed process had accepted is broken by the system.
    t.same(
      loops[0]?.wrong.filter((text) => !text.includes('ECONNRESET') && !text.includes('hang up')),
      []
    )
    asking.child.kill('SIGTERM')
    await asking.ended()
  }
})

t.test(
  'the new process is killed at any moment before it serves: the old process keeps running entirely',
  async (t) => {
    const stand = await Stand.open(t)
    await stand.start().logged('listening')
    const begun = performance.now()
    const { asking: served } = await stand.takeOver()
    await served.told('serves; the old one exits')
    const whole = performance.now() - begun
    const loops = stand.looping()
    let killed = 0
    for (let moment = 1; moment < MOMENTS; moment++) {
      const asked = performance.now()
      const { asking, pid } = await stand.takeOver()
      await wait(Math.max(0, (whole * moment) / MOMENTS - (performance.now() - asked)))
      if (asking.said('serves; the old one exits')) break
      process.kill(pid, 'SIGKILL')
      killed++
      t.equal((await asking.ended()).code, 1)
      await until(() => stand.apiAnswers())
    }
    t.ok(killed > MOMENTS / 2, `${killed} were killed in time`)
    const before = loops.map(({ well }) => well)
    await until(() => loops.every(({ well }, i) => well > (before[i] ?? 0)))
    await Promise.all(loops.map((loop) => loop.end()))
    // The system breaks a connection that the killed process had accepted.
    const wrong = loops.flatMap((loop) => loop.wrong)
    t.same(
      wrong.filter((text) => !text.includes('ECONNRESET') && !text.includes('hang up')),
      []
    )
    t.ok(wrong.length <= killed * loops.length, `${wrong.length} broken requests`)
  }
)

t.test('the service manager of the process that ran is notified by the new one', async (t) => {
  const stand = await Stand.open(t)
  const { folder } = stand
  await writeFile(join(folder, 'heard'), '')
  const tool = `#!/bin/sh\nprintf '%s %s\\n' "$PPID" "$*" >>"$HEARD"\n`
  await writeFile(join(folder, 'systemd-notify'), tool, { mode: 0o755 })
  const HEARD = join(folder, 'heard')
  const heard = async (what: string) => (await readFile(HEARD, 'utf8')).split('\n').filter((line) => line === what)
  // The command has a manager of its own, which is none of the process that serves.
  const tools = { PATH: `${folder}:${process.env.PATH}`, HEARD }
  const old = stand.startWith({ ...tools, NOTIFY_SOCKET: join(folder, 'notify'), WATCHDOG_USEC: '400000' })
  await old.logged('listening')
  await until(async () => (await heard(`${old.child.pid} WATCHDOG=1`)).length > 1)
  const { asking, pid } = await stand.takeOver({ ...tools, NOTIFY_SOCKET: '', WATCHDOG_PID: '1' })
  await asking.told('serves; the old one exits')
  t.equal(await exitOf(old), 0)
  t.same(await heard(`${old.child.pid} MAINPID=${pid} READY=1 STATUS=serves`), [
    `${old.child.pid} MAINPID=${pid} READY=1 STATUS=serves`
  ])
  const before = (await heard(`${pid} WATCHDOG=1`)).length
  await until(async () => (await heard(`${pid} WATCHDOG=1`)).length > before + 1)
  asking.child.kill('SIGTERM')
  t.equal((await asking.ended()).code, 0)
  t.equal((await heard(`${pid} STOPPING=1 STATUS=draining open connections`)).length, 1)
})

t.test('a request that cannot be met is answered, and stands in the way of no other one', async (t) => {
  const stand = await Stand.open(t)
  const old = stand.start()
  await old.logged('listening')
  const request = { pid: process.pid, program: process.execPath, words: [], folder: stand.folder, environment: {} }
  const unmet = [
    {},
    { ...request, program: 'a\0b' },
    { ...request, program: join(stand.folder, 'nothing') },
    // More than a system takes for one argument.
    { ...request, words: ['x'.repeat(200_000)] }
  ]
  for (const one of unmet) {
    const socket = await connected(join(stand.folder, 'data'))
    socket.write(`${JSON.stringify(one)}\n`)
    let answer = ''
    for await (const piece of socket) answer += piece
    t.match(answer, /"failed","text":"the new process cannot be started.*the old process keeps running/)
  }
  t.ok(await stand.apiAnswers())
  const { asking } = await stand.takeOver()
  await asking.told('serves; the old one exits')
  t.equal(await exitOf(old), 0)
  asking.child.kill('SIGTERM')
  t.equal((await asking.ended()).code, 0)
})

t.test('where nobody runs it starts as usual, and without a folder it is refused', async (t) => {
  const stand = await Stand.open(t)
  const first = stand.start('--take-over')
  await first.told('no process runs on')
  await first.logged('listening')
  t.ok(await stand.apiAnswers())
  const memory = stand.start('--take-over', '--data', ':memory:')
  const { code, err } = await memory.ended()
  t.equal(code, 2)
  t.match(err, /--take-over needs a data folder/)
})

t.test(
  'the process that ran is hung: the command says so, ends it, and starts by itself',
  { timeout: 90_000 },
  async (t) => {
    const stand = await Stand.open(t)
    const old = stand.start()
    await old.logged('listening')
    await until(() => existsSync(join(stand.folder, 'data', 'take-over.sock')))
    old.child.kill('SIGSTOP')
    const asking = stand.start('--take-over')
    await asking.told('no answer for 5 s')
    await asking.told(`process ${old.child.pid} has not responded for 15 s; killing it`)
    await asking.told('starting normally')
    await asking.logged('listening')
    t.equal(await statusOf(stand.ports.traffic, '/'), 200)
    t.equal(old.child.signalCode, 'SIGKILL')
    asking.child.kill('SIGTERM')
    t.equal((await asking.ended()).code, 0)
  }
)

t.test(
  'the process that ran dies before its first step: the new one starts by itself',
  { timeout: 90_000 },
  async (t) => {
    const stand = await Stand.open(t)
    const old = stand.start()
    await old.logged('listening')
    await until(() => existsSync(join(stand.folder, 'data', 'take-over.sock')))
    old.child.kill('SIGSTOP')
    const asking = stand.start('--take-over')
    await asking.told('no answer for 5 s')
    old.child.kill('SIGKILL')
    await asking.told('starting normally')
    await asking.logged('listening')
    t.equal(await statusOf(stand.ports.traffic, '/'), 200)
    asking.child.kill('SIGTERM')
    t.equal((await asking.ended()).code, 0)
  }
)

t.test(
  'the process that ran hangs within a take-over: the new one ends it and serves on its sockets',
  { timeout: 90_000 },
  async (t) => {
    const stand = await Stand.open(t)
    const old = stand.start()
    await old.logged('listening')
    const { asking } = await stand.takeOver()
    old.child.kill('SIGSTOP')
    await asking.told(`process ${old.child.pid} has not responded for 20 s; killing it`)
    await until(() => stand.apiAnswers())
    t.equal(await statusOf(stand.ports.traffic, '/'), 200)
    asking.child.kill('SIGTERM')
    await asking.ended()
  }
)
