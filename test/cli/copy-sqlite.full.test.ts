import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, rmdirSync, rmSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { copiesOf } from '../../src/store/copy/copy-file.js'
import { noImmutableFiles, noSmallDisk, SmallDisk } from '../helpers/small-disk.js'
import { until } from '../helpers/until.js'
import { folder } from '../store/opened.js'
import { CopyStand, copied } from './copy-stand.js'

/** A site that was written and copied, and whose process has stopped. */
async function written(t: Test, cwd: string, marker = 'first') {
  const stand = await CopyStand.start(t, cwd, {})
  const route = await stand.site(marker)
  await copied(join(cwd, 'data'), 'sluice.db', await stand.revision())
  t.equal(await stand.stop(), 0)
  return route
}

/** Starts while the file cannot be used, and then mends it. */
async function survives(t: Test, cwd: string, route: string, mends: () => void): Promise<void> {
  const stand = await CopyStand.start(t, cwd, {})
  const { msg, reason } = await stand.process.logged('degraded')
  t.match(msg, /^degraded: serving revision \d+ from its own copy, the store is out of reach$/, String(reason))
  t.equal(await stand.serves(), 'first')
  t.equal(await stand.health(), 'degraded')
  t.match((await stand.ask('/processes')).json.processes, [{ self: true, last_error: msg }])
  t.equal((await stand.ask(route)).status, 200)
  const refused = await stand.change(route, 'too early')
  t.equal(refused.status, 503)
  t.equal(refused.json.msg, `${msg}; nothing was changed`)
  mends()
  await until(async () => (await stand.health()) === 'ok')
  t.equal((await stand.change(route, 'second')).status, 200)
  t.equal(await stand.serves(), 'second')
  await copied(join(cwd, 'data'), 'sluice.db', await stand.revision())
  t.equal(await stand.stop(), 0)
}

t.test('a file that takes no writes', { skip: noImmutableFiles() }, async (t) => {
  const cwd = await folder(t)
  const route = await written(t, cwd)
  const file = join(cwd, 'data', 'sluice.db')
  execFileSync('chattr', ['+i', file])
  t.teardown(() => {
    execFileSync('chattr', ['-i', file])
  })
  await survives(t, cwd, route, () => execFileSync('chattr', ['-i', file]))
})

for (const [fault, breaks, mends] of [
  ['a read-only disk', 'readOnly', 'writable'],
  ['a full disk', 'fill', 'empty']
] as const) {
  t.test(fault, { skip: noSmallDisk() }, async (t) => {
    const cwd = await folder(t)
    const disk = SmallDisk.mount(t, join(cwd, 'data'))
    const route = await written(t, cwd)
    disk[breaks]()
    await survives(t, cwd, route, () => disk[mends]())
  })
}

t.test('a file that is an older one when it can be used again is served as it is', async (t) => {
  const cwd = await folder(t)
  const file = join(cwd, 'data', 'sluice.db')
  const route = await written(t, cwd)
  const older = join(cwd, 'older.db')
  copyFileSync(file, older)
  const later = await CopyStand.start(t, cwd, {})
  t.equal((await later.change(route, 'later')).status, 200)
  await copied(join(cwd, 'data'), 'sluice.db', await later.revision())
  t.equal(await later.stop(), 0)
  unlinkSync(file)
  mkdirSync(file)
  const stand = await CopyStand.start(t, cwd, {})
  t.equal(await stand.serves(), 'later', 'what was applied last')
  rmdirSync(file)
  copyFileSync(older, file)
  await until(async () => (await stand.health()) === 'ok')
  await until(async () => (await stand.serves()) === 'first')
  await stand.process.logged('the store is not the one that was followed')
  t.equal(await stand.stop(), 0)
})

t.test('a file that another process has is told, whatever there is to serve', async (t) => {
  const cwd = await folder(t)
  await written(t, cwd)
  const holder = await CopyStand.start(t, cwd, {})
  const { code, err } = await CopyStand.launch(t, cwd, {}).ended()
  t.equal(code, 1)
  t.match(err, /is in use by process/)
  t.equal(await holder.stop(), 0)
})

t.test('a copy that cannot be used is told, and the store is waited for', async (t) => {
  const cwd = await folder(t)
  const data = join(cwd, 'data')
  await written(t, cwd)
  const [file, away] = [join(data, 'sluice.db'), join(cwd, 'away.db')]
  copyFileSync(file, away)
  unlinkSync(file)
  mkdirSync(file)
  // Also the copy before it, which there is where the last two writes were copied apart.
  for (const path of copiesOf(join(data, 'configuration.copy'))) rmSync(path, { force: true })
  writeFileSync(join(data, 'configuration.copy'), 'cut')
  writeFileSync(join(data, 'configuration.copy.0123456789ab'), 'half written')
  const waiting = CopyStand.launch(t, cwd, {})
  await waiting.logged('the copy of the configuration is of no use')
  await waiting.logged('the store is out of reach and there is no copy')
  rmdirSync(file)
  copyFileSync(away, file)
  const stand = await CopyStand.listening(waiting)
  t.equal(await stand.serves(), 'first')
  t.notOk(existsSync(join(data, 'configuration.copy.0123456789ab')), 'what a crash left half written is taken away')
  t.equal(await stand.stop(), 0)
})
