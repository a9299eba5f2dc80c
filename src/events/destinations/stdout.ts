import type { Writable } from 'node:stream'
import { joined, LINES } from './joined.js'
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
      this.#stream.write(joined(events, LINES), (error) => {
        resolve(error ? { message: 'the standard output takes nothing' } : undefined)
      })
    })
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}
