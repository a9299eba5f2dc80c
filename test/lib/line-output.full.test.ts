import { execFileSync } from 'node:child_process'
import { closeSync, constants, openSync, readFileSync, readSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { LineOutput, type OutputRecovery } from '../../src/lib/line-output.js'
import { until } from '../helpers/until.js'

const MIB = 1024 * 1024
/** More than a pipe of the system takes (64 KiB). */
const LINE = `${'x'.repeat(1023)}\n`

/** A pipe with both ends in this process; nothing is read until `read` is called. */
function pipe(t: Test) {
  const path = join(t.testdir(), 'pipe')
  execFileSync('mkfifo', [path])
  // Neither end waits for the other one when the pipe is opened for both.
  const both = openSync(path, constants.O_RDWR | constants.O_NONBLOCK)
  const end = openSync(path, constants.O_WRONLY)
  t.teardown(() => {
    closeSync(both)
    closeSync(end)
  })
  const buffer = Buffer.alloc(MIB)
  return {
    end,
    /** What has been written and not yet read. */
    read(): string {
      try {
        return buffer.toString('utf8', 0, readSync(both, buffer))
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return ''
        throw error
      }
    }
  }
}

t.test('lines arrive in order, and their callbacks are called after it', async (t) => {
  const path = join(t.testdir({ log: '' }), 'log')
  const fd = openSync(path, 'a')
  t.teardown(() => closeSync(fd))
  const output = new LineOutput({ fd, bytes: MIB })
  const order: string[] = []
  for (const name of ['a', 'b', 'c']) {
    output.write(`${name}\n`, (error) =>
      order.push(error ? 'failed' : `${name} ${readFileSync(path, 'utf8').includes(name)}`)
    )
  }
  await output.close(5_000)
  t.equal(readFileSync(path, 'utf8'), 'a\nb\nc\n')
  t.same(order, ['a true', 'b true', 'c true'])
  t.equal(output.write('late\n'), false, 'a closed output takes nothing')
})

t.test('a reader that is slow gets every line, whole and in order', async (t) => {
  const { end, read } = pipe(t)
  const output = new LineOutput({ fd: end, bytes: 4 * MIB })
  const sent = Array.from({ length: 2_000 }, (_, i) => `${i} ${'y'.repeat(i % 997)}\n`)
  for (const line of sent) output.write(line)
  let got = ''
  await until(() => {
    got += read()
    return got.length === sent.join('').length
  })
  t.equal(got, sent.join(''))
  t.equal(output.dropped, 0)
  await output.close(1_000)
})

t.test('what an unread pipe does not take is bounded and counted, and told once it is read again', async (t) => {
  const { end, read } = pipe(t)
  const recoveries: OutputRecovery[] = []
  const output = new LineOutput({ fd: end, bytes: MIB, recovered: (recovery) => recoveries.push(recovery) })
  let taken = 0
  let refused = 0
  const results: (Error | null | undefined)[] = []
  for (let i = 0; i < 4_000; i++) {
    if (output.write(LINE)) taken++
    else refused++
  }
  output.write(LINE, (error) => results.push(error))
  t.equal(results.length, 1, 'a line that is dropped is settled at once')
  t.ok(results[0])
  t.ok(taken * LINE.length <= MIB, `${taken} lines are kept`)
  t.equal(output.dropped, refused + 1)
  t.equal(output.dropping, 'EAGAIN')
  let got = ''
  await until(() => {
    got += read()
    return recoveries.length > 0
  })
  got += read()
  t.equal(got.length, taken * LINE.length)
  t.ok(
    got.split('\n').every((line) => line === '' || line.length === 1023),
    'no line is torn'
  )
  t.match(recoveries, [{ dropped: refused + 1, reason: 'EAGAIN' }])
  t.equal(output.dropping, undefined)
  await output.close(1_000)
})

t.test('a full disk and a reader that has left cost lines and nothing else', async (t) => {
  const full = openSync('/dev/full', 'w')
  t.teardown(() => closeSync(full))
  const output = new LineOutput({ fd: full, bytes: MIB })
  for (let i = 0; i < 1_000; i++) output.write(LINE)
  await until(() => {
    output.write(LINE)
    return output.dropped > 0 && output.dropping === 'ENOSPC'
  })
  const begun = performance.now()
  await output.close(200)
  t.ok(performance.now() - begun < 5_000, 'closing has a deadline')
  output.writeNow()

  const path = join(t.testdir(), 'pipe')
  execFileSync('mkfifo', [path])
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  const end = openSync(path, constants.O_WRONLY)
  t.teardown(() => closeSync(end))
  const broken = new LineOutput({ fd: end, bytes: MIB })
  closeSync(reader)
  for (let i = 0; i < 2_000; i++) broken.write(LINE)
  t.ok(broken.dropped > 0)
  await broken.close(100)
})
