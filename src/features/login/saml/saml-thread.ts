import { parentPort } from 'node:worker_threads'
import { readSaml, type SamlJob } from './reading.js'

/** Thread that reads the XML of identity providers, so that none of it is parsed where traffic is carried. */
parentPort?.on('message', (job: SamlJob) => {
  void readSaml(job).then((outcome) => parentPort?.postMessage(outcome))
})
