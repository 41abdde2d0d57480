-- What a task's payload looks like, as JSON Schema, when the library of its schema can say so.

ALTER TABLE deployment_tasks ADD COLUMN payload_schema TEXT;
