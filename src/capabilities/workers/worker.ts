import { parentPort, workerData } from 'node:worker_threads'
import type { ToTrafficThread, TrafficThreadData } from './thread-protocol.js'
import { openTrafficThread } from './traffic-thread.js'

/** A thread that carries traffic. Messages wait until it has opened; what fails before that ends it. */
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
