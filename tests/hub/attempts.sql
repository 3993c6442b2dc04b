-- One attempt a line. V is the namespace of the victim and V.ana a login in it, SHA the version of its text; PUSH takes
-- an id, a path, the versions before and after; what is pushed is the text x, whose version is X.

-- strangers
SELECT * FROM memsheaf.spaces WHERE namespace = 'V'
SELECT * FROM memsheaf.members WHERE namespace = 'V'
SELECT * FROM memsheaf.commits WHERE namespace = 'V'
SELECT * FROM memsheaf.revisions WHERE namespace = 'V'
SELECT * FROM memsheaf.texts WHERE namespace = 'V'
SELECT * FROM memsheaf.documents WHERE namespace = 'V'
SELECT * FROM memsheaf.erasures WHERE namespace = 'V'
SELECT * FROM memsheaf.machines WHERE namespace = 'V'
SELECT * FROM memsheaf.proofs WHERE namespace = 'V'
SELECT * FROM memsheaf.texts WHERE version = 'SHA'
SELECT * FROM memsheaf.texts_0 UNION ALL SELECT * FROM memsheaf.texts_1
SELECT * FROM memsheaf.texts_2 UNION ALL SELECT * FROM memsheaf.texts_3
SELECT * FROM memsheaf.texts TABLESAMPLE SYSTEM (100) WHERE namespace = 'V'
SELECT 1 / (length(data) - length(data)) FROM memsheaf.texts WHERE namespace = 'V'
SET row_security = off; SELECT * FROM memsheaf.texts
SELECT set_config('memsheaf.namespace', 'V', false); SELECT * FROM memsheaf.texts WHERE namespace = 'V'
SELECT set_config('memsheaf.namespace', 'V', false); SELECT * FROM memsheaf.members WHERE login = 'V.ana'
SELECT set_config('memsheaf.namespace', 'V', false); SELECT * FROM memsheaf.documents_0 UNION ALL SELECT * FROM memsheaf.documents_1
SET memsheaf.namespace = 'V'; SELECT * FROM memsheaf.joined
SELECT memsheaf.entered(), set_config('memsheaf.namespace', 'V', false) INTO TEMP t; SELECT * FROM t WHERE entered IS NOT NULL
SET memsheaf.namespace = 'V'; SELECT memsheaf.entered() AS ns WHERE memsheaf.entered() IS NOT NULL
SET memsheaf.namespace = 'V'; SELECT * FROM memsheaf.spaces
SET memsheaf.namespace = 'V'; SELECT * FROM memsheaf.proposals
SET memsheaf.namespace = 'V'; SELECT memsheaf.join_space('V')
SELECT memsheaf.join_space('VICTIM:user/ana')
SELECT memsheaf.join_space('VICTIM:project/x')
SELECT * FROM memsheaf.pull('V', '')
SELECT * FROM memsheaf.pull('V', '//0//')
SELECT * FROM memsheaf.hello('V')
SELECT memsheaf.lock_key('V', 'work')
SELECT memsheaf.erase('V', '0ddba110ddba', '', '', '{PATH}', '{SHA}')
SELECT memsheaf.report('V', 'm1', 'mine', '[]')
SELECT memsheaf.invite('V', 'eve', 'admin', 'SCRAM-SHA-256$4096:AAAA$AAAA:AAAA')
SELECT memsheaf.remove('V', 'ana')
SELECT memsheaf.prune('V', 0)
SELECT memsheaf.restored('V')
SELECT memsheaf.enter('V', 'reader')
SELECT memsheaf.create_login('V.ana', 'SCRAM-SHA-256$4096:AAAA$AAAA:AAAA')
SELECT memsheaf.lock_paths(memsheaf.lock_seed('V'))
SELECT memsheaf.create_space('W:team', 'x', 'x')
SET ROLE memsheaf_owner
SET ROLE "V.ana"
SET SESSION AUTHORIZATION "V.ana"
GRANT memsheaf_owner TO current_user
ALTER ROLE "V.ana" PASSWORD 'mine'
DROP ROLE "V.ana"
CREATE ROLE evil SUPERUSER
INSERT INTO memsheaf.members VALUES ('V', current_user, 'eve', 'admin')
UPDATE memsheaf.texts SET data = '' WHERE namespace = 'V'
DELETE FROM memsheaf.documents
TRUNCATE memsheaf.commits
COPY memsheaf.texts TO STDOUT
COPY (SELECT * FROM memsheaf.texts WHERE namespace = 'V') TO STDOUT
COPY memsheaf.members FROM PROGRAM 'true'
SELECT * FROM memsheaf.texts FOR UPDATE
LOCK TABLE memsheaf.texts IN ACCESS EXCLUSIVE MODE
ALTER TABLE memsheaf.texts DISABLE ROW LEVEL SECURITY
CREATE POLICY all_mine ON memsheaf.texts USING (true)
DROP TABLE memsheaf.texts
DROP SCHEMA memsheaf CASCADE
CREATE TABLE memsheaf.members_of_mine (x int)
CREATE FUNCTION memsheaf.f() RETURNS int LANGUAGE sql AS 'SELECT 1'
CREATE OR REPLACE FUNCTION memsheaf.me() RETURNS text LANGUAGE sql AS 'SELECT $$V.ana$$'
ALTER FUNCTION memsheaf.me() OWNER TO current_user
CREATE TRIGGER t AFTER INSERT ON memsheaf.commits EXECUTE FUNCTION pg_catalog.suppress_redundant_updates_trigger()
CREATE TEMP TABLE t (v text REFERENCES memsheaf.texts)
SELECT * FROM pg_stats WHERE schemaname = 'memsheaf'
SELECT * FROM pg_statistic
SELECT rolpassword FROM pg_authid
SELECT pg_read_file('PG_VERSION')
SELECT query FROM pg_stat_activity WHERE query LIKE '%heron%' AND pid <> pg_backend_pid()
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'V.ana'
UPDATE memsheaf.about SET version = 99
PUSH 0ddba110ddba new.md - X

-- with temporary objects
CREATE FUNCTION pg_temp.leak(bytea) RETURNS bool COST 0.0000001 LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '%', $1; END $$; SELECT * FROM memsheaf.texts WHERE pg_temp.leak(data) AND namespace = 'V'
CREATE FUNCTION pg_temp.leak(text) RETURNS bool COST 0.0000001 LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '%', $1; END $$; SELECT * FROM memsheaf.documents WHERE pg_temp.leak(path) AND namespace = 'V'
CREATE FUNCTION pg_temp.session_user() RETURNS text LANGUAGE sql AS 'SELECT $$V.ana$$'; SET search_path = pg_temp, pg_catalog; SELECT * FROM memsheaf.pull('V', '')
CREATE FUNCTION pg_temp.set_config(text, text, bool) RETURNS text LANGUAGE sql AS 'SELECT $$V$$'; SET search_path = pg_temp, pg_catalog; SELECT * FROM memsheaf.pull('V', '')
CREATE TEMP TABLE members AS SELECT 'V' AS namespace, current_user::text AS login, 'ana' AS name, 'admin' AS role; SET search_path = pg_temp; SELECT * FROM memsheaf.pull('V', '')
CREATE TEMP VIEW v AS SELECT * FROM memsheaf.texts; SELECT * FROM v WHERE namespace = 'V'
PREPARE q AS SELECT * FROM memsheaf.texts; EXECUTE q
BEGIN; DECLARE c CURSOR FOR SELECT * FROM memsheaf.texts; FETCH ALL FROM c

-- readers
PUSH 0ddba110ddba new.md - X
PUSH 0ddba110ddba PATH SHA -
SELECT memsheaf.erase('V', '0ddba110ddba', '', '', '{PATH}', '{SHA}')
SELECT memsheaf.lock_key('V', 'work')
SELECT memsheaf.invite('V', 'eve', 'admin', 'SCRAM-SHA-256$4096:AAAA$AAAA:AAAA')
SELECT memsheaf.remove('V', 'ana')
SELECT memsheaf.prune('V', 0)
SELECT memsheaf.restored('V')
SELECT memsheaf.join_space('VICTIM:user/ana')
UPDATE memsheaf.members SET role = 'admin'
DELETE FROM memsheaf.documents
INSERT INTO memsheaf.texts VALUES ('V', 'x', '')

-- writers
PUSH 0ddba110ddba new.md - SHA
PUSH 0ddba110ddba ../new.md - X
PUSH 0ddba110ddba /etc/passwd - X
PUSH 0ddba110ddba .history/hub.json - X
PUSH 0ddba110ddba a/../b.md - X
PUSH 0ddba110ddba a//b.md - X
PUSH 0ddba110ddba MEMORY.md - X
PUSH 0ddba110ddba a.md,b.md - X
PUSH not_an_id new.md - X
PUSH 0ddba110ddba new.md NULL X
PUSH THEIRS new.md - X
SELECT memsheaf.erase('V', '0ddba110ddba', '', '', '{PATH,../x.md}', '{}')
SELECT memsheaf.erase('V', '0ddba110ddba', '', '', '{NULL}', '{}')
BEGIN; SELECT pg_current_xact_id(); PUSH 0ddba110ddba new.md - X
SELECT memsheaf.report('V', 'm1', 'taken over', '[]')
SELECT memsheaf.invite('V', 'eve', 'admin', 'SCRAM-SHA-256$4096:AAAA$AAAA:AAAA')
SELECT memsheaf.join_space('VICTIM:user/ana')
SELECT memsheaf.join_space('VICTIM:user/bob:x')
SELECT memsheaf.join_space('V')
SELECT memsheaf.create_space('VICTIM:team', 'V.bob', 'ana')
UPDATE memsheaf.commits SET member = 'ana'
INSERT INTO memsheaf.commits SELECT namespace, 'f', xid, 0, at, received, 'ana', '', '', '', '' FROM memsheaf.commits
UPDATE memsheaf.machines SET member = 'bob'
INSERT INTO memsheaf.proofs VALUES ('V', 'x', 'm1', '')

-- admins
SELECT memsheaf.invite('V', 'x" SUPERUSER --', 'writer', 'SCRAM-SHA-256$4096:AAAA$AAAA:AAAA')
SELECT memsheaf.invite('V', 'x', 'owner', 'SCRAM-SHA-256$4096:AAAA$AAAA:AAAA')
SELECT memsheaf.invite('V', 'x', 'writer', 'SCRAM-SHA-256$'' SUPERUSER')
SELECT memsheaf.invite('V', 'x', 'writer', 'plain')
SELECT memsheaf.invite('V', 'ana.x', 'writer', 'SCRAM-SHA-256$4096:AAAA$AAAA:AAAA')
SELECT memsheaf.remove('V', 'root')
SELECT memsheaf.create_space('W:team', 'V.root', 'root')
DELETE FROM memsheaf.commits
CREATE ROLE evil
DROP ROLE "V.ana"
ALTER ROLE "V.ana" PASSWORD 'mine'
SET ROLE "V.ana"

-- in the name of another
SELECT set_config('memsheaf.member', 'V.ana', false); SELECT * FROM memsheaf.pull('V', '')
SELECT set_config('memsheaf.member', 'V.ana', false); SELECT * FROM memsheaf.texts WHERE namespace = 'V'
BEGIN; SET LOCAL memsheaf.member = 'V.ana'; PUSH 0ddba110ddba new.md - X
SET ROLE memsheaf_service
