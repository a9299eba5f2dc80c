/** Certificate with its key as PEM. Contexts are cached by this object, so another certificate is another object. */
export interface ServerIdentity {
  /** Leaf first. */
  readonly chain: string
  readonly privateKey: string
  /** Certificate with another key type, for clients that do not support this one. */
  readonly also?: Omit<ServerIdentity, 'also'>
}

/** Self-signed certificate for names without one. Created on first use: most processes never need it. */
export class DevelopmentIdentity {
  readonly #make: () => Promise<ServerIdentity>
  #making: Promise<ServerIdentity> | undefined
  #made: ServerIdentity | undefined

  constructor(make: () => Promise<ServerIdentity>) {
    this.#make = make
  }

  /** Wraps an existing certificate. */
  static of(made: ServerIdentity): DevelopmentIdentity {
    const identity = new DevelopmentIdentity(async () => made)
    identity.#made = made
    return identity
  }

  /** The identity; undefined until it is created. */
  get made(): ServerIdentity | undefined {
    return this.#made
  }

  /** Creates the certificate on the first call. Rejects if that fails; the next call retries. */
  async ready(): Promise<ServerIdentity> {
    this.#making ??= this.#make()
    try {
      this.#made = await this.#making
      return this.#made
    } catch (error) {
      this.#making = undefined
      throw error
    }
  }
}
