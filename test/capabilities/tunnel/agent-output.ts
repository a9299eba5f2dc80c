/** Where an agent says what happens, for tests to wait on. */
export class Output {
  text = ''
  readonly isTTY: boolean
  #changes: (() => void)[] = []

  constructor(isTTY = false) {
    this.isTTY = isTTY
  }

  write(text: string): void {
    this.text += text
    for (const run of this.#changes.splice(0)) run()
  }

  async until(pattern: RegExp): Promise<void> {
    while (!pattern.test(this.text)) await new Promise<void>((resolve) => this.#changes.push(resolve))
  }
}
