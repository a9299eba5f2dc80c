import { parentPort } from 'node:worker_threads'
import { verifyPassword } from '../../lib/password-hash.js'
import type { HashJob } from './hash-checker.js'

/** Thread that checks passwords one by one. */
parentPort?.on('message', ({ password, hash }: HashJob) => {
  void verifyPassword(password, hash).then(
    (matches) => parentPort?.postMessage(matches),
    () => parentPort?.postMessage(false)
  )
})
