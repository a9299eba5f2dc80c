/** Does this text name a PostgreSQL server, rather than a path? Its form is not looked at. */
export function isPostgresUrl(text: string): boolean {
  return /^postgres(ql)?:/i.test(text)
}

/** Host, port and database of an address, without user and password; undefined: it is no valid URL. */
export function postgresName(url: string): string | undefined {
  if (!URL.canParse(url)) return undefined
  const { host, pathname, searchParams } = new URL(url)
  return `postgres://${host || (searchParams.get('host') ?? 'localhost')}${pathname}`
}
