import { Session } from 'node:inspector/promises'
import type { Worker } from 'node:worker_threads'

interface Attached {
  readonly params: {
    readonly sessionId: string
    readonly workerInfo: { readonly title: string; readonly url: string }
  }
}

/**
 * Makes the event loop of one traffic thread of this process stand still for good; resolves with the thread. `workers`: threads that may be
 * chosen.
 */
export async function hangThreads(workers: readonly Worker[]): Promise<Worker> {
  const session = new Session()
  session.connect()
  const attached: Attached['params'][] = []
  session.on('NodeWorker.attachedToWorker', ({ params }: Attached) => void attached.push(params))
  await session.post('NodeWorker.enable', { waitForDebuggerOnStart: false })
  const [found] = attached.filter(({ workerInfo }) => workerInfo.url.endsWith('/workers/worker.js'))
  const id = /\d+/.exec(found?.workerInfo.title ?? '')?.[0]
  const worker = workers.find(({ threadId }) => `${threadId}` === id)
  if (worker === undefined || found === undefined) throw new Error('there is no traffic thread')
  const { sessionId } = found
  const message = JSON.stringify({
    id: 1,
    method: 'Runtime.evaluate',
    params: { expression: 'setTimeout(() => { for (;;); }, 0)' }
  })
  await session.post('NodeWorker.sendMessageToWorker', { sessionId, message })
  session.disconnect()
  return worker
}
