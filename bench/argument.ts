/** The word behind `--name` on the command line; `fallback` where there is none. */
export function argument(name: string, fallback: string): string {
  const at = process.argv.indexOf(`--${name}`)
  return at === -1 ? fallback : (process.argv[at + 1] ?? fallback)
}
