import type { Writable } from 'node:stream'
import type { Parcel, Sender, SendFailure } from './sender.js'

/** A line for each event on the standard output of the process. */
export class Stdout implements Sender {
  readonly most = 100
  readonly #stream: Writable

  constructor(stream: Writable) {
    this.#stream = stream
  }

  async send({ events }: Parcel): Promise<SendFailure | undefined> {
    return await new Promise((resolve) => {
      this.#stream.write(`${events.join('\n')}\n`, (error) => {
        resolve(error ? { message: 'the standard output takes nothing' } : undefined)
      })
    })
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}
