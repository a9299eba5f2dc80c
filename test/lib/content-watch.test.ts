import { EventEmitter, once } from 'node:events'
import { appendFile, mkdir, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { ContentWatch, type ContentWatchOptions } from '../../src/lib/content-watch.js'

const QUICK = { settleMilliseconds: 20, pollMilliseconds: 60_000 }

// A watch does not keep a process alive; the test has to.
const alive = setInterval(() => undefined, 60_000)
t.teardown(() => clearInterval(alive))

async function watching(t: Test, file: string, options: ContentWatchOptions = QUICK) {
  const changes = new EventEmitter()
  let count = 0
  const watch = await ContentWatch.start(
    file,
    async () => {
      count += 1
      changes.emit('changed')
    },
    (error) => t.fail(String(error)),
    options
  )
  t.teardown(() => watch.close())
  return { watch, changed: () => once(changes, 'changed'), count: () => count }
}

t.test('writing, atomic renames and links that are swapped are seen', async (t) => {
  const folder = t.testdir({ 'p.yaml': 'one', v1: { 'q.yaml': 'one' }, v2: { 'q.yaml': 'two' } })
  const file = join(folder, 'p.yaml')
  const { changed } = await watching(t, file)

  let seen = changed()
  await writeFile(file, 'two')
  await seen

  for (const text of ['three', 'four']) {
    seen = changed()
    await writeFile(join(folder, 'p.tmp'), text)
    await rename(join(folder, 'p.tmp'), file)
    await seen
  }

  // As Kubernetes does it: the file is a link through a link to a folder, and that link is swapped.
  await symlink('v1', join(folder, '..data'))
  await symlink('..data/q.yaml', join(folder, 'q.yaml'))
  const linked = await watching(t, join(folder, 'q.yaml'))
  seen = linked.changed()
  await symlink('v2', join(folder, '..data_tmp'))
  await rename(join(folder, '..data_tmp'), join(folder, '..data'))
  await seen
  t.pass('all changes were seen')
})

t.test('the same content again is no change', async (t) => {
  const folder = t.testdir({ 'p.yaml': 'one' })
  const file = join(folder, 'p.yaml')
  const { changed, count } = await watching(t, file)
  await writeFile(file, 'one')
  await utimes(file, 1, 1)
  await rm(file)
  await writeFile(file, 'one')
  const seen = changed()
  await writeFile(join(folder, 'p.tmp'), 'two')
  await rename(join(folder, 'p.tmp'), file)
  await seen
  t.equal(count(), 1)
})

t.test('a file that is gone is told once each time, and is no change', async (t) => {
  const folder = t.testdir({ 'p.yaml': 'one' })
  const file = join(folder, 'p.yaml')
  const events = new EventEmitter()
  const lost: string[] = []
  let changes = 0
  const watch = await ContentWatch.start(
    file,
    async () => {
      changes += 1
      events.emit('changed')
    },
    (error) => t.fail(String(error)),
    {
      settleMilliseconds: 10,
      pollMilliseconds: 20,
      lost: (code) => {
        lost.push(code)
        events.emit('lost')
      }
    }
  )
  t.teardown(() => watch.close())
  let told = once(events, 'lost')
  await rm(file)
  await told
  const changed = once(events, 'changed')
  await writeFile(file, 'two')
  await changed
  told = once(events, 'lost')
  await rm(file)
  await mkdir(file)
  await told
  await watch.close()
  t.match(lost, ['ENOENT', /^(?:ENOENT|EISDIR)$/])
  t.equal(changes, 1)
})

t.test('a folder that is replaced is found again by the poll', async (t) => {
  const folder = t.testdir({ etc: { 'p.yaml': 'one' }, other: { 'p.yaml': 'two' } })
  const etc = join(folder, 'etc')
  const { changed } = await watching(t, join(etc, 'p.yaml'), { settleMilliseconds: 10, pollMilliseconds: 30 })
  let seen = changed()
  await rename(etc, join(folder, 'old'))
  await rename(join(folder, 'other'), etc)
  await seen
  seen = changed()
  await rm(etc, { recursive: true })
  await mkdir(etc)
  await writeFile(join(etc, 'p.yaml'), 'three')
  await seen
  t.pass('both replacements were seen')
})

t.test('a call ends before the next begins, and none comes after close', async (t) => {
  const folder = t.testdir({ 'p.yaml': 'one' })
  const file = join(folder, 'p.yaml')
  const events = new EventEmitter()
  let running = 0
  let most = 0
  const watch = await ContentWatch.start(
    file,
    async () => {
      running += 1
      most = Math.max(most, running)
      const go = once(events, 'go')
      events.emit('began')
      await go
      running -= 1
    },
    (error) => t.fail(String(error)),
    QUICK
  )
  let began = once(events, 'began')
  await writeFile(file, 'two')
  await began
  await writeFile(file, 'three')
  began = once(events, 'began')
  events.emit('go')
  await began
  const closed = watch.close()
  events.emit('go')
  await closed
  await writeFile(file, 'four')
  t.equal(most, 1)
  t.equal(running, 0)
})

t.test('an error of the receiver reaches the one who asked, and the watch goes on', async (t) => {
  const folder = t.testdir({ 'p.yaml': 'one' })
  const file = join(folder, 'p.yaml')
  const failures = new EventEmitter()
  const watch = await ContentWatch.start(
    file,
    async () => {
      throw new Error('no')
    },
    (error) => failures.emit('failed', error),
    QUICK
  )
  t.teardown(() => watch.close())
  for (const text of ['two', 'three']) {
    const failed = once(failures, 'failed')
    await writeFile(file, text)
    t.match(await failed, [{ message: 'no' }])
  }
})

/** Does `write` every few milliseconds until `done` resolves. */
async function meanwhile(write: (time: number) => Promise<void>, done: Promise<unknown>): Promise<void> {
  let over = false
  void done.finally(() => {
    over = true
  })
  for (let time = 0; !over; time++) {
    await write(time)
    await pause(5)
  }
}

t.test('another file of the folder that is written all the time holds up no change', async (t) => {
  const folder = t.testdir({ 'p.yaml': 'one' })
  const file = join(folder, 'p.yaml')
  // The bound does not help here: names do.
  const { changed, count } = await watching(t, file, { ...QUICK, settleMilliseconds: 60, boundMilliseconds: 3_600_000 })
  const log = join(folder, 'access.log')
  for (const text of ['two', 'three']) {
    const seen = changed()
    await writeFile(file, text)
    await meanwhile((time) => appendFile(log, `${time}\n`), seen)
  }
  await appendFile(log, 'last\n')
  t.equal(count(), 2)
})

t.test('a file that is saved again and again is read within the bound, and that is said once', async (t) => {
  const file = join(t.testdir({ 'p.yaml': 'one' }), 'p.yaml')
  const events = new EventEmitter()
  let restless = 0
  let changes = 0
  const watch = await ContentWatch.start(
    file,
    async () => {
      if (++changes === 15) events.emit('read')
    },
    (error) => t.fail(String(error)),
    {
      settleMilliseconds: 3_600_000,
      boundMilliseconds: 40,
      pollMilliseconds: 3_600_000,
      restless: () => void ++restless
    }
  )
  t.teardown(() => watch.close())
  await meanwhile((time) => writeFile(file, `text ${time}`), once(events, 'read'))
  t.equal(restless, 1)
})
