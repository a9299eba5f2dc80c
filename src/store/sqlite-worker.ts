import { parentPort, workerData } from 'node:worker_threads'
import { failureOf, SqliteFile } from './sqlite-file.js'
import type { SqliteOpening, SqliteReply, SqliteRequest, SqliteThreadData } from './sqlite-protocol.js'

/** Runs the store thread: opens the file, then executes requests one by one until it is closed. */
function serve(): void {
  const port = parentPort
  if (port === null) return
  const { path } = workerData as SqliteThreadData
  let file: SqliteFile
  try {
    file = SqliteFile.open(path)
  } catch (error) {
    port.postMessage({ opened: false, failure: failureOf(error) } satisfies SqliteOpening)
    port.close()
    return
  }
  port.on('message', ({ number, command }: SqliteRequest) => {
    port.postMessage(answer(number, () => file.execute(command)))
    if (command.type === 'close') port.close()
  })
  port.postMessage({ opened: true } satisfies SqliteOpening)
}

function answer(number: number, run: () => ReturnType<SqliteFile['execute']>): SqliteReply {
  try {
    return { number, result: run() }
  } catch (error) {
    return { number, failure: failureOf(error) }
  }
}

serve()
