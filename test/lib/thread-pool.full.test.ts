import { spawnSync } from 'node:child_process'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { ThreadPool, TOO_SLOW } from '../../src/lib/thread-pool.js'

/** A thread that does what a job says, in an order that the test can see. */
const THREAD = `
  const { parentPort, threadId } = require('node:worker_threads')
  parentPort.on('message', ({ does, value }) => {
    if (does === 'throw') throw new Error('it broke: ' + value)
    if (does === 'exit') process.exit(3)
    if (does === 'for ever') for (;;);
    parentPort.postMessage({ value, threadId })
  })
`

interface Job {
  readonly does: 'answer' | 'throw' | 'exit' | 'for ever'
  readonly value: number
}

interface Answer {
  readonly value: number
  readonly threadId: number
}

function pool(size: number, longest = 60_000) {
  const started: Worker[] = []
  const threads = new ThreadPool<Job, Answer>({
    start: () => {
      const worker = new Worker(THREAD, { eval: true })
      started.push(worker)
      return worker
    },
    size,
    longest
  })
  t.teardown(() => Promise.all(started.map((worker) => worker.terminate())))
  const run = (value: number, does: Job['does'] = 'answer') => threads.run({ does, value })
  return { run, started }
}

function valueIn(answer: Answer | typeof TOO_SLOW): number | undefined {
  return answer === TOO_SLOW ? undefined : answer.value
}

t.test('a job has its own result, and one thread serves one after the other', async (t) => {
  const { run, started } = pool(1)
  t.equal(started.length, 0, 'no thread without a job')
  const order: number[] = []
  const answers = await Promise.all(
    [1, 2, 3, 4].map(async (value) => {
      const answer = await run(value)
      order.push(value)
      return answer
    })
  )
  t.same(answers.map(valueIn), [1, 2, 3, 4])
  t.same(order, [1, 2, 3, 4], 'in the order in which they came')
  t.equal(started.length, 1)
  t.equal(valueIn(await run(5)), 5)
  t.equal(started.length, 1, 'an idle thread is used again')
})

t.test('there are no more threads than the pool may have', async (t) => {
  const { run, started } = pool(2)
  const answers = await Promise.all([1, 2, 3, 4, 5, 6].map((value) => run(value)))
  t.same(answers.map(valueIn), [1, 2, 3, 4, 5, 6])
  t.equal(started.length, 2)
  const threads = new Set(answers.map((answer) => (answer === TOO_SLOW ? undefined : answer.threadId)))
  t.equal(threads.size, 2, 'both have worked')
})

t.test('what takes too long is ended, and the next job has a new thread', async (t) => {
  const { run, started } = pool(1, 300)
  const [slow, next] = await Promise.all([run(1, 'for ever'), run(2)])
  t.equal(slow, TOO_SLOW)
  t.equal(valueIn(next), 2)
  t.equal(started.length, 2)
  t.equal(started[0]?.threadId, -1, 'the first thread is gone')
})

t.test('a thread that throws or ends fails its own job alone', async (t) => {
  const { run, started } = pool(1)
  const jobs = [run(1, 'throw'), run(2), run(3, 'exit'), run(4)]
  const [thrown, second, exited, fourth] = await Promise.allSettled(jobs)
  t.match(thrown, { status: 'rejected', reason: { message: 'it broke: 1' } })
  t.match(second, { status: 'fulfilled', value: { value: 2 } })
  t.match(exited, { status: 'rejected', reason: { message: 'the thread ended with 3' } })
  t.match(fourth, { status: 'fulfilled', value: { value: 4 } })
  t.equal(started.length, 3, 'one in the place of each that died')
})

t.test('a process waits for results, and an idle pool keeps none alive', async (t) => {
  const script = `
    import { Worker } from 'node:worker_threads'
    import { ThreadPool } from ${JSON.stringify(new URL('../../src/lib/thread-pool.js', import.meta.url))}
    const pool = new ThreadPool({ start: () => new Worker(${JSON.stringify(THREAD)}, { eval: true, execArgv: [] }), size: 1, longest: 600000 })
    pool.run({ does: 'answer', value: 7 }).then(({ value }) => console.log('value', value))
  `
  const ended = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    encoding: 'utf8',
    timeout: 60_000
  })
  t.equal(ended.stderr, '')
  t.equal(ended.stdout, 'value 7\n')
  t.equal(ended.status, 0)
})
