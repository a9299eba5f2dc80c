import { parentPort, workerData } from 'node:worker_threads'
import type { ToTrafficThread, TrafficThreadData } from './thread-protocol.js'
import { openTrafficThread } from './traffic-thread.js'

/** Entry point of a worker. Messages are queued until it has opened; an earlier failure ends it. */
if (parentPort === null) throw new TypeError('this file is the beginning of a thread')
const port = parentPort
void openTrafficThread(
  workerData as TrafficThreadData,
  (message, transfer = []) => port.postMessage(message, transfer),
  () => process.exit(1)
).then((thread) => {
  process.on('uncaughtException', (error) => thread.fail(error))
  port.on('message', (message: ToTrafficThread) => thread.receive(message))
})
