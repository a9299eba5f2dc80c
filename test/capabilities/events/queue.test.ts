import t from 'tap'
import type { Batch } from '../../../src/capabilities/events/destinations/sender.js'
import { DeliveryQueue } from '../../../src/capabilities/events/queue.js'

/** More than the jobs that follow one another when a run ends. */
const JOBS = 12

t.test('what begins to wait in the moment in which a run ends goes too', async (t) => {
  for (let jobs = 0; jobs < JOBS; jobs++) {
    const waiting = [batch('1')]
    const sent: string[] = []
    const queue: DeliveryQueue = new DeliveryQueue({
      source: {
        next: async () => {
          const found = waiting.shift()
          if (found === undefined && sent.length === 1) void another()
          return found
        },
        done: async () => undefined,
        failed: async () => false
      },
      sender: {
        most: 1,
        send: async ({ id }) => void sent.push(id),
        close: async () => undefined
      },
      backOff: { first: 1, longest: 1 },
      random: () => 0,
      fault: (error) => t.fail(String(error))
    })
    const another = async () => {
      await after(jobs)
      waiting.push(batch('2'))
      queue.wake()
    }
    queue.wake()
    await after(4 * JOBS)
    await queue.idle()
    t.same(sent, ['1', '2'], `${jobs} jobs after there was nothing`)
  }
})

function batch(id: string): Batch {
  return { id, events: [id], list: false }
}

async function after(jobs: number): Promise<void> {
  for (let job = 0; job < jobs; job++) await undefined
}
