import type { Parcel, Sender, SendFailure } from './sender.js'

/** The standard output of the process, shared with the log. */
export interface StandardOutput {
  /** `text`: whole lines. `settled` is called once, with an error when they were not written. */
  write(text: string, settled: (error?: Error | null) => void): unknown
}

/** A line for each event on the standard output of the process. */
export class Stdout implements Sender {
  readonly most = 100
  readonly #stream: StandardOutput

  constructor(stream: StandardOutput) {
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
